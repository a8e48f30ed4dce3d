package balancer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/pause"
)

func TestRemovedEndpointDrains(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		c := warm(t, `{"quorate_round_robin":{"drainTimeout":"5s"}}`, servers)
		ep := c.endpoint(servers[0])
		short := c.starting(3, servers[0], attempt{write: true, takes: 4900 * time.Millisecond})
		long := c.starting(3, servers[0], attempt{write: true, takes: time.Minute})
		s, bulk := c.open(balancer.Streams, ep), c.open(balancer.Bulk, ep)
		time.Sleep(time.Millisecond)
		c.resolver.UpdateState(c.state(servers[1]))
		removed := time.Now()
		<-ep.Removed()
		assert.Equal(t, health.Draining, ep.State())
		assert.Len(t, c.events.reached(servers[0], health.Draining), 1)
		c.reads(10)
		succeed(t, short)
		assert.True(t, s.isOpen(), "its owner may move it or not")
		for range 3 {
			o := <-long
			assert.ErrorContains(t, o.cut, "drain timeout")
			assert.Equal(t, removed.Add(5*time.Second), o.began.Add(o.took))
		}
		assert.Error(t, s.endsWithin(t, time.Millisecond))
		time.Sleep(2 * time.Minute)
		assert.Equal(t, []string{"a"}, c.events.closedAddresses())
		assert.True(t, bulk.isOpen(), "bulk transfers run to their end")
		assert.Len(t, servers[0].connections(), 1)
		bulk.close()
		time.Sleep(time.Millisecond)
		assert.Empty(t, servers[0].connections())
		assert.Len(t, c.options.Table.All(), 1)
	})
}

// flap removes the first server from the list for a time.
func (c *client) flap(absent time.Duration) {
	c.resolver.UpdateState(c.state(c.servers[1:]...))
	time.Sleep(absent)
	c.resolver.UpdateState(c.state(c.servers...))
	synctest.Wait()
}

// An endpoint that returns while it drains goes on with its connections and what is in flight on them.
func TestListThatFlapsEndsNothing(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		at, ep := servers[0], c.endpoint(servers[0])
		write := c.starting(1, at, attempt{write: true, takes: 40 * time.Second}) // longer than the drain timeout
		s, bulk := c.open(balancer.Streams, ep), c.open(balancer.Bulk, ep)
		for range 2 {
			time.Sleep(time.Second)
			removed := ep.Removed()
			c.flap(time.Second)
			<-removed
			assert.Same(t, ep, c.endpoint(at))
			assert.Equal(t, health.Serving, ep.State())
			assert.False(t, pause.Closed(ep.Removed()), "it is listed")
		}
		assert.Len(t, c.events.reached(at, health.Draining), 2)
		assert.GreaterOrEqual(t, len(c.events.reached(at, health.Serving)), 3, "first, and after each return")
		before := at.calls.Load()
		c.load(2, 100*time.Millisecond, time.Second, false)
		assert.NoError(t, (<-write).err)
		assert.True(t, s.isOpen())
		assert.True(t, bulk.isOpen())
		assert.Greater(t, at.calls.Load(), before+100)
		assert.Empty(t, c.events.closedAddresses())
		assert.EqualValues(t, 2, at.conns.Load(), "no other connection for calls is made")
		s.cancel()
		bulk.cancel()
		<-s.ended
		<-bulk.ended
	})
}

// What was found of an endpoint counts after its return, and so does what is found then.
func TestEndpointThatReturnsIsWatched(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		s := c.open(balancer.Streams, c.endpoint(servers[0]))
		c.flap(time.Second)
		c.load(3, 20*time.Millisecond, time.Hour, false)
		servers[0].frozen.Shut()
		assert.Error(t, s.endsWithin(t, 2*time.Second))
		within(t, time.Second, "dead", func() bool { return c.is(servers[0]) == health.Dead })
		c.flap(time.Second)
		assert.False(t, c.is(servers[0]).Usable(), "as before")
		servers[0].frozen.Open()
		within(t, 15*time.Second, "serving", func() bool { return c.is(servers[0]) == health.Serving })
	})
}

func TestDeadEndpointThatReturnsIsTriedAtOnce(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		servers[0].kill()
		time.Sleep(time.Minute)
		require.Equal(t, health.Dead, c.is(servers[0]))
		c.resolver.UpdateState(c.state(servers[1]))
		servers[0].restart()
		time.Sleep(10 * time.Second)
		assert.EqualValues(t, 1, servers[0].conns.Load(), "a removed endpoint is not connected")
		c.resolver.UpdateState(c.state(servers...))
		within(t, 10*time.Millisecond, "serving", func() bool { return c.is(servers[0]) == health.Serving })
	})
}

// The connection that a removed endpoint loses is made again when it returns.
func TestDrainingEndpointThatIsLostReturns(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		s := c.open(balancer.Streams, c.endpoint(servers[0]))
		c.resolver.UpdateState(c.state(servers[1]))
		servers[0].disconnect()
		<-s.ended
		time.Sleep(time.Second)
		assert.Empty(t, servers[0].connections())
		c.resolver.UpdateState(c.state(servers...))
		time.Sleep(time.Millisecond)
		require.NoError(t, c.call(t.Context(), attempt{only: c.endpoint(servers[0])}).err)
		assert.Zero(t, c.endpoint(servers[0]).Inspect(0).Streams)
	})
}

// Without anything in flight, a removed endpoint keeps no connection.
func TestRemovedEndpointIsClosedOnceItIsIdle(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		write := c.starting(1, servers[0], attempt{write: true, takes: 5 * time.Second})
		time.Sleep(time.Millisecond)
		c.resolver.UpdateState(c.state(servers[1]))
		time.Sleep(4 * time.Second)
		assert.Len(t, servers[0].connections(), 1)
		require.NoError(t, (<-write).err)
		time.Sleep(time.Millisecond)
		assert.Empty(t, servers[0].connections())
		c.resolver.UpdateState(c.state(servers...))
		c.resolver.UpdateState(c.state(servers[0]))
		time.Sleep(time.Millisecond)
		assert.Empty(t, servers[1].connections())
	})
}

func TestEndpointReturnsAsTheListHasIt(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		two := func(weight uint32, addresses ...string) resolver.State {
			st := c.state(servers[1])
			ep := resolver.Endpoint{}
			for _, a := range addresses {
				ep.Addresses = append(ep.Addresses, resolver.Address{Addr: a})
			}
			st.Endpoints = append(st.Endpoints, balancer.SetWeight(ep, weight), balancer.SetWeight(ep, weight))
			return st
		}
		c.resolver.UpdateState(two(1, "a", "second"))
		time.Sleep(time.Second)
		ep := c.monitor.Endpoints()[1]
		s := c.open(balancer.Streams, ep)
		c.resolver.UpdateState(c.state(servers[1]))
		time.Sleep(time.Second)
		c.resolver.UpdateState(two(7, "second", "a"))
		require.Len(t, c.monitor.Endpoints(), 2, "each once")
		assert.Same(t, ep, c.monitor.Endpoints()[1])
		assert.EqualValues(t, 7, ep.Weight())
		time.Sleep(time.Minute)
		assert.True(t, s.isOpen())
		servers[0].disconnect()
		<-s.ended
		time.Sleep(time.Second)
		require.NoError(t, c.call(t.Context(), attempt{only: ep}).err, "reached by its second address")
	})
}

// gRPC closes the policy while an endpoint drains, and after one has returned.
func TestPolicyIsClosedWhileAnEndpointDrains(t *testing.T) {
	for name, returns := range map[string]bool{"drains": false, "has returned": true} {
		subtest(t, name, 2, func(t *testing.T, servers []*server) {
			c := warm(t, roundRobin, servers)
			s := c.open(balancer.Streams, c.endpoint(servers[0]))
			c.resolver.UpdateState(c.state(servers[1]))
			if returns {
				c.resolver.UpdateState(c.state(servers...))
			}
			require.NoError(t, c.Close())
			<-s.ended
			time.Sleep(time.Minute)
			assert.Empty(t, c.options.Table.All())
			assert.Empty(t, c.events.closedAddresses())
		})
	}
}

func TestCallsWithoutEndpointsFail(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, _ []*server) {
		c := connect(t, roundRobin, nil)
		_, err := pb.NewTestServiceClient(c.ClientConn).EmptyCall(t.Context(), &pb.Empty{})
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.ErrorContains(t, err, "no endpoints")
	})
}

// A resolver's error is returned to calls that do not wait for ready, whatever its code.
func TestCallsWaitWhileTheResolverFails(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, servers []*server) {
		c := connect(t, roundRobin, servers)
		c.resolver.InitialState(c.state())
		c.Connect()
		synctest.Wait()
		c.resolver.CC().ReportError(status.Error(codes.PermissionDenied, "no permission to watch"))
		synctest.Wait()
		_, err := pb.NewTestServiceClient(c.ClientConn).EmptyCall(t.Context(), &pb.Empty{})
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.ErrorContains(t, err, "no permission to watch")
		waited := make(chan outcome, 1)
		go func() { waited <- c.read() }()
		time.Sleep(time.Minute)
		assert.Empty(t, waited)
		c.resolver.UpdateState(c.state(servers...))
		assert.NoError(t, (<-waited).err)
	})
}
