package kubernetes

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/pause"
)

// hosts returns n addresses in 10.net.0.0/16.
func hosts(net, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("10.%d.%d.%d", net, i/250, i%250+1)
	}
	return list
}

func TestSlicesAreMerged(t *testing.T) {
	elsewhere := slice("users", "a", 80, "10.9.0.2")
	elsewhere.Namespace = "elsewhere"
	server := startServer(t, elsewhere, slice("others", "d", 80, "10.9.0.1"),
		slice("users", "a", 80, hosts(1, 100)...), slice("users", "b", 80, hosts(2, 100)...), slice("users", "c", 80, hosts(3, 50)...))
	c := open(t, server, "kubernetes:///users.shop:grpc")
	c.AwaitCount(t, 250)
	states, errs := c.Counts()
	assert.Equal(t, 1, states, "nothing is published before the list is complete")
	assert.Zero(t, errs)

	t.Run("a touched slice leaves the others", func(t *testing.T) {
		touched := slice("users", "c", 80, hosts(3, 50)...)
		touched.Annotations = map[string]string{"touched": "yes"}
		update(t, server, touched)
		update(t, server, slice("users", "c", 80, hosts(3, 51)...))
		c.AwaitCount(t, 251)
		states, _ := c.Counts()
		assert.Equal(t, 2, states, "a list that is the same is not published again")
	})
	t.Run("a deleted slice takes its endpoints with it", func(t *testing.T) {
		require.NoError(t, server.Delete("shop", "a"))
		c.AwaitCount(t, 151)
	})
	t.Run("a slice that goes to another service as well", func(t *testing.T) {
		update(t, server, slice("others", "b", 80, hosts(2, 100)...))
		c.AwaitCount(t, 51)
	})
	assert.Equal(t, 1, server.Count("watch"))
	assert.Zero(t, server.Count("list"), "the verb watch is enough")
}

// A channel without endpoints has an empty list and the reason.
func TestWithoutEndpoints(t *testing.T) {
	admin := slice("users", "a", 80, "10.0.0.1")
	admin.Ports = append(admin.Ports, discoveryv1.EndpointPort{Name: new("admin"), Port: new(int32(81))})
	for target, c := range map[string]struct {
		first, second *discoveryv1.EndpointSlice
		reason        []string
		want          string
	}{
		"kubernetes:///users.shop":       {slice("users", "a", 80), slice("users", "a", 80, "10.0.0.1"), []string{"has no endpoints", "scaled to zero"}, "10.0.0.1:80"},
		"kubernetes:///users.shop:admin": {slice("users", "a", 80, "10.0.0.1"), admin, []string{`no TCP port named "admin"`, "grpc (80)"}, "10.0.0.1:81"},
		"kubernetes:///users":            {slice("others", "a", 80, "10.0.0.1"), slice("users", "a", 80, "10.0.0.1"), []string{`service "users" in namespace "shop" has no EndpointSlices`}, "10.0.0.1:80"},
	} {
		server := startServer(t, c.first)
		channel := openWith(t, Config{REST: server.RESTConfig(), Namespace: "shop"}, quick(), target)
		reported := 0
		for range 2 {
			channel.AwaitAddresses(t)
			channel.AwaitError(t, reported, c.reason...)
			states, errs := channel.Received()
			assert.NotNil(t, states[len(states)-1].Endpoints, "gRPC takes nil for a resolver that knows only addresses")
			reported = len(errs)
			update(t, server, c.second)
			channel.AwaitAddresses(t, c.want)
			update(t, server, c.first)
		}
	}
}

func TestChannelsShareWatchAndConnection(t *testing.T) {
	server := startServer(t, slice("users", "a", 80, "10.0.0.1"), slice("orders", "b", 80, "10.0.0.2"))
	b := newTestBuilder(t, Config{REST: server.RESTConfig()}, quick())
	var built sync.WaitGroup
	channels := make([]*grpctest.Channel, 100)
	for i := range channels {
		channels[i] = grpctest.NewChannel()
		built.Go(func() {
			service := []string{"users", "orders"}[i%2]
			r, err := b.Build(grpctest.Target(t, "kubernetes:///"+service+".shop"), channels[i], resolver.BuildOptions{})
			if assert.NoError(t, err) {
				t.Cleanup(r.Close)
			}
		})
	}
	built.Wait()
	for _, c := range channels {
		c.AwaitCount(t, 1)
	}
	update(t, server, slice("users", "a", 80, "10.0.0.1", "10.0.0.3"))
	for i, c := range channels {
		c.AwaitCount(t, 2-i%2)
	}
	assert.Equal(t, 2, server.Count("watch"))
	require.Eventually(t, func() bool { return server.Connections() == 1 }, testTimeout, tick)
}

func TestLastCloseEndsWatch(t *testing.T) {
	server := startServer(t, slice("users", "a", 80, "10.0.0.1"))
	b := newTestBuilder(t, Config{REST: server.RESTConfig()}, quick())
	for round := range 3 {
		one, first := grpctest.Resolve(t, b, "kubernetes:///users.shop")
		two, second := grpctest.Resolve(t, b, "kubernetes:///users.shop:8080")
		one.AwaitAddresses(t, "10.0.0.1:80")
		two.AwaitAddresses(t, "10.0.0.1:8080")
		require.NoError(t, server.Wait(grpctest.Within(t, testTimeout), "watch", round+1)) // the addresses may be those of the last source
		first.Close()
		assert.NotNil(t, b.links.current)
		second.Close()
		assert.Nil(t, b.links.current)
		require.Equal(t, round+1, server.Count("watch"))
		require.Eventually(t, func() bool { return server.Watches() == 0 && server.Connections() == 0 }, testTimeout, tick)
	}
}

func TestCloseDuringEvents(t *testing.T) {
	server := startServer(t, slice("users", "a", 80, "10.0.0.1"))
	b := newTestBuilder(t, Config{REST: server.RESTConfig()}, quick())
	stop := make(chan struct{})
	var changes sync.WaitGroup
	changes.Go(func() {
		for i := 0; !pause.Closed(stop); i++ {
			if _, err := server.Update(slice("users", "a", 80, fmt.Sprintf("10.0.0.%d", i%200+1))); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	published := make(map[*grpctest.Channel]int)
	for range 20 {
		c, r := grpctest.Resolve(t, b, "kubernetes:///users.shop")
		require.True(t, c.Wait(testTimeout, func() bool { states, _ := c.Counts(); return states > 2 }))
		r.Close()
		published[c], _ = c.Counts()
	}
	close(stop)
	changes.Wait()
	for c, before := range published {
		after, _ := c.Counts()
		assert.Equal(t, before, after, "nothing is published after Close")
	}
}

func TestCloseAtOnce(t *testing.T) {
	server := startServer(t)
	b := newTestBuilder(t, Config{REST: server.RESTConfig()}, quick())
	var closed sync.WaitGroup
	for range 50 {
		closed.Go(func() {
			r, err := b.Build(grpctest.Target(t, "kubernetes:///users.shop"), grpctest.NewChannel(), resolver.BuildOptions{})
			if assert.NoError(t, err) {
				r.ResolveNow(resolver.ResolveNowOptions{})
				r.Close()
			}
		})
	}
	closed.Wait()
	assert.Nil(t, b.links.current)
}

func TestEmptyListIsNotRepeated(t *testing.T) {
	server := startServer(t, slice("users", "a", 80))
	c := grpctest.NewChannel()
	c.OnUpdate = func(resolver.State) error { return balancer.ErrBadResolverState }
	r, err := newTestBuilder(t, Config{REST: server.RESTConfig()}, quick()).Build(grpctest.Target(t, "kubernetes:///users.shop"), c, resolver.BuildOptions{})
	require.NoError(t, err)
	defer r.Close()
	c.AwaitError(t, 0, "has no endpoints")
	c.OnUpdate = nil
	update(t, server, slice("users", "a", 80, "10.0.0.2"))
	c.AwaitAddresses(t, "10.0.0.2:80")
	states, _ := c.Counts()
	assert.Equal(t, 2, states)
}

func TestBuildRefusesTarget(t *testing.T) {
	b := newTestBuilder(t, Config{REST: restNowhere()}, quick())
	_, err := b.Build(grpctest.Target(t, "kubernetes:///users:80:90"), grpctest.NewChannel(), resolver.BuildOptions{})
	assert.ErrorContains(t, err, "two colons")
	assert.Nil(t, b.links.current)
}

func TestRPCErrorSaysWhatIsWrong(t *testing.T) {
	s := slice("users", "a", 80, "10.0.0.1")
	s.Endpoints[0].Conditions.Ready = new(false)
	server := startServer(t, s, slice("orders", "b", 80))
	b := newTestBuilder(t, Config{REST: server.RESTConfig()}, quick())
	for text, want := range map[string]string{
		"kubernetes:///users.shop":        "none of the 1 endpoints of service \"users\" in namespace \"shop\" is ready",
		"kubernetes:///users.shop:nosuch": `has no TCP port named "nosuch"`,
		"kubernetes:///orders.shop":       "has no endpoints",
		"kubernetes:///orders.nowhere":    "has no EndpointSlices",
		"kubernetes:///users:80:90":       "two colons",
	} {
		// gRPC's round_robin reports its own text without endpoints.
		conn := connect(t, b, text, grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"pick_first":{}}]}`))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			_, err := grpctest.Ask(t.Context(), conn)
			assert.Equal(c, codes.Unavailable, status.Code(err))
			assert.ErrorContains(c, err, want)
		}, testTimeout, tick, text)
	}
}

func awaitState(t *testing.T, conn *grpc.ClientConn, want connectivity.State) {
	t.Helper()
	ctx := grpctest.Within(t, testTimeout)
	for s := conn.GetState(); s != want; s = conn.GetState() {
		require.True(t, conn.WaitForStateChange(ctx, s), "still %v", s)
	}
}
