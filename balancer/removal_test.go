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
		for range 10 {
			require.NoError(t, c.read().err)
		}
		for range 3 {
			assert.NoError(t, (<-short).err)
		}
		assert.True(t, s.isOpen(), "its owner may move it or not")
		for range 3 {
			o := <-long
			assert.ErrorContains(t, o.cut, "drain timeout")
			assert.Equal(t, removed.Add(5*time.Second), o.began.Add(o.took))
		}
		assert.Error(t, s.endsWithin(t, time.Millisecond))
		time.Sleep(2 * time.Minute)
		assert.True(t, bulk.isOpen(), "bulk transfers run to their end")
		assert.Len(t, servers[0].connections(), 1)
		bulk.cancel()
		<-bulk.ended
		time.Sleep(time.Millisecond)
		assert.Empty(t, servers[0].connections())
		assert.Len(t, c.options.Table.All(), 1)
	})
}

func TestRemovedEndpointDrainsForThirtySeconds(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		c := warm(t, roundRobin, servers)
		call := c.starting(1, servers[0], attempt{write: true, takes: time.Hour})
		time.Sleep(time.Millisecond)
		c.resolver.UpdateState(c.state(servers[1]))
		assert.Error(t, (<-call).cut)
		synctest.Wait()
		assert.Equal(t, []string{"a"}, c.events.closedAddresses())
	})
}

func TestReaddedEndpointIsNew(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		c := warm(t, roundRobin, servers)
		old := c.endpoint(servers[0])
		bulk := c.open(balancer.Bulk, old)
		c.resolver.UpdateState(c.state(servers[1]))
		synctest.Wait()
		c.resolver.UpdateState(c.state(servers...))
		time.Sleep(10 * time.Millisecond)
		assert.NotSame(t, old, c.endpoint(servers[0]))
		assert.Equal(t, health.Draining, old.State())
		assert.NoError(t, c.call(t.Context(), attempt{only: c.endpoint(servers[0])}).err)
		time.Sleep(time.Minute)
		assert.True(t, bulk.isOpen())
		assert.Equal(t, health.Serving, c.is(servers[0]))
		bulk.cancel()
		<-bulk.ended
	})
}

func TestEndpointWithAnotherSecondAddressIsNew(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, servers []*server) {
		c := connect(t, roundRobin, servers)
		for _, second := range []string{"x", "y"} {
			st := c.state(servers...)
			st.Endpoints[0].Addresses = append(st.Endpoints[0].Addresses, resolver.Address{Addr: second})
			c.resolver.UpdateState(st)
			require.NoError(t, c.read().err)
		}
		assert.Len(t, c.options.Table.All(), 1)
	})
}

func TestEndpointIsReachedByItsSecondAddress(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, servers []*server) {
		c := connect(t, roundRobin, servers)
		st := c.state(servers...)
		st.Endpoints[0].Addresses = []resolver.Address{{Addr: "nowhere"}, {Addr: servers[0].addr}}
		c.resolver.UpdateState(st)
		o := c.read()
		require.NoError(t, o.err)
		assert.Equal(t, "nowhere", o.at.Address(), "its name is the first address")
	})
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
