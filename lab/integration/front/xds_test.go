package front_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	xdscredentials "google.golang.org/grpc/credentials/xds"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/link"
)

const p2c, roundRobin = "quorate_p2c", "quorate_round_robin"

// dialXDS connects as the control plane says.
func dialXDS(t *testing.T, c *control) *grpc.ClientConn {
	t.Helper()
	creds, err := xdscredentials.NewClientCredentials(xdscredentials.ClientOptions{FallbackCreds: insecure.NewCredentials()})
	require.NoError(t, err)
	conn, err := grpc.NewClient("xds:///greeter", grpc.WithResolvers(c.resolver(t)),
		grpc.WithTransportCredentials(balancer.Credentials(creds)))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close()) })
	return conn
}

// addresses returns those of servers.
func addresses(servers ...*server) []string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.addr()
	}
	return list
}

// reach repeats a hundred calls until each of these servers has answered some, and no other
// one has. p2c, which prefers the fastest, may leave some out.
func reach(t *testing.T, conn *grpc.ClientConn, policy string, servers ...*server) {
	t.Helper()
	want := map[string]bool{}
	for _, address := range addresses(servers...) {
		want[address] = true
	}
	ctx := grpctest.Within(t, readmission)
	for ok := false; !ok; time.Sleep(5 * pollInterval) {
		seen := map[string]bool{}
		for range 100 {
			resp, err := pb.NewTestServiceClient(conn).UnaryCall(ctx, &pb.SimpleRequest{})
			require.NoError(t, err, "want %v, saw %v", want, seen)
			seen[resp.GetUsername()] = true
		}
		ok = len(seen) == len(want) || policy == p2c
		maps.DeleteFunc(seen, func(address string, _ bool) bool { return want[address] })
		ok = ok && len(seen) == 0
	}
}

// background makes calls with pauses between them, until end.
type background struct {
	load    load
	stop    context.CancelFunc
	running sync.WaitGroup
	calls   atomic.Int64
}

func call(t *testing.T, conn *grpc.ClientConn) *background {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b := &background{stop: cancel, load: load{ok: map[string]bool{}}}
	client := pb.NewTestServiceClient(conn)
	for range callers {
		b.running.Go(func() {
			for ctx.Err() == nil {
				b.load.call(client, "")
				b.calls.Add(1)
				time.Sleep(callPause)
			}
		})
	}
	t.Cleanup(func() { b.end() })
	return b
}

// more returns when so many calls more have ended.
func (b *background) more(t *testing.T, calls int64) {
	t.Helper()
	enough := b.calls.Load() + calls
	require.Eventually(t, func() bool { return b.calls.Load() >= enough }, testTimeout, pollInterval, "calls do not end")
}

// end returns the errors of all calls.
func (b *background) end() []error {
	b.stop()
	b.running.Wait()
	return b.load.errors
}

// The policy chooses among all endpoints, or in one locality that another policy has chosen.
func TestXDSEndpointsComeAndGo(t *testing.T) {
	for _, c := range []struct {
		policy, placement string
		place             func(*testing.T, *control)
	}{
		{p2c, "of the cluster", func(*testing.T, *control) {}},
		{roundRobin, "of each locality", func(t *testing.T, c *control) { c.byLocality(t) }},
	} {
		t.Run(c.policy+", "+c.placement, func(t *testing.T) { comeAndGo(t, c.policy, c.place) })
	}
}

func comeAndGo(t *testing.T, policy string, place func(*testing.T, *control)) {
	servers := startServers(t, 4)
	c := startControl(t, p2c, policy)
	place(t, c)
	c.publish(t, map[string][]string{"a": addresses(servers[:2]...)})
	conn := dialXDS(t, c)
	reach(t, conn, policy, servers[:2]...)
	calls := call(t, conn)
	for _, step := range []struct {
		zones map[string][]string
		want  []*server
	}{
		{map[string][]string{"a": addresses(servers[:3]...)}, servers[:3]},
		{map[string][]string{"a": addresses(servers[1:3]...)}, servers[1:3]},
		{map[string][]string{"a": addresses(servers[1]), "b": addresses(servers[2:]...)}, servers[1:]},
		{map[string][]string{"b": addresses(servers[3])}, servers[3:]},
	} {
		c.publish(t, step.zones)
		reach(t, conn, policy, step.want...)
	}
	assert.Empty(t, calls.end())
}

// A stream on an endpoint that is withdrawn has its time to end.
func TestXDSEndpointsDrain(t *testing.T) {
	servers := startServers(t, 2)
	c := startControl(t, `"drainTimeout": "30s"`, `"drainTimeout": "1s"`)
	c.publish(t, map[string][]string{"a": addresses(servers[0])})
	conn := dialXDS(t, c)
	stream := openDuplex(t, conn)
	require.NoError(t, exchange(stream, 1))
	c.publish(t, map[string][]string{"a": addresses(servers[1])})
	reach(t, conn, p2c, servers[1])
	_, err := stream.Recv() // which the context of the stream ends if nothing else does
	assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
}

// A server that does not answer is left, and no call fails for it, if the route says that
// calls may be repeated. So it is with TLS as the control plane wants it.
func TestXDSLeavesAServerThatDoesNotAnswer(t *testing.T) {
	for _, c := range []struct {
		policy string
		secure bool
	}{{p2c, false}, {roundRobin, true}} {
		t.Run(fmt.Sprintf("%s, TLS %v", c.policy, c.secure), func(t *testing.T) { leave(t, c.policy, c.secure) })
	}
}

func leave(t *testing.T, policy string, secure bool) {
	c := startControl(t, p2c, policy)
	creds := insecure.NewCredentials()
	if secure {
		c.secure(t)
		creds = credentials.NewTLS(c.authority.Server(t))
	}
	servers := []*server{startServer(t, creds), startServer(t, creds), startServer(t, creds)}
	c.publish(t, map[string][]string{"a": addresses(servers[0]), "b": addresses(servers[1:]...)})
	conn := dialXDS(t, c)
	reach(t, conn, policy, servers...)
	calls := call(t, conn)
	calls.more(t, 500)
	servers[0].link.Blackhole(link.Both)
	calls.more(t, 1000)
	servers[0].link.Heal()
	require.Eventually(t, func() bool { return servers[0].link.Stats().Active > 0 }, testTimeout, pollInterval, "it is not connected again")
	reach(t, conn, policy, servers...)
	assert.Empty(t, calls.end())
	// Of some answers, the header may have come through before the link was silent.
	t.Logf("cut within their answer: %v", calls.load.partial)
	assert.LessOrEqual(t, len(calls.load.partial), callers)
}
