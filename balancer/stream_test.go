package balancer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

// watching returns a client with a single stream, which had one pause of a second.
func watching(t *testing.T, servers []*server) (*client, *stream) {
	t.Helper()
	c := connect(t, roundRobin, servers)
	s := c.open(balancer.Streams, nil)
	at := c.server(s.Endpoint())
	time.Sleep(20 * time.Second)
	at.quiet.Shut()
	time.Sleep(time.Second)
	at.quiet.Open()
	time.Sleep(3 * time.Second)
	require.Greater(t, s.heard.Load(), int64(1000))
	require.False(t, c.events.ever(health.Suspected))
	return c, s
}

func TestStreamIsCutWithinASecond(t *testing.T) {
	for name, test := range map[string]struct {
		fault  func(*server) *gate
		end    health.State
		closed int // connections
	}{
		"frozen":  {func(s *server) *gate { return &s.frozen }, health.Dead, 1},
		"stalled": {func(s *server) *gate { return &s.stalled }, health.Lagging, 0},
	} {
		subtest(t, name, 3, func(t *testing.T, servers []*server) {
			c, s := watching(t, servers)
			at := c.server(s.Endpoint())
			fault := test.fault(at)
			fault.Shut()
			assert.ErrorContains(t, s.endsWithin(t, time.Second), "endpoint "+at.addr+" is lagging")
			within(t, 500*time.Millisecond, "found", func() bool { return c.is(at) == test.end })
			within(t, time.Second, "closed", func() bool { return len(c.events.closedAddresses()) == test.closed })
			fault.Open()
			within(t, 11*time.Second, "readmitted", func() bool { return c.is(at) == health.Serving })
		})
	}
}

// The pause of a stream causes one probe, which shows that the endpoint serves.
func TestStreamWithPausesCostsFewProbes(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		c, s := watching(t, servers)
		before, at := c.probes.Load(), c.server(s.Endpoint())
		for range 12 {
			at.quiet.Shut()
			time.Sleep(10 * time.Second)
			at.quiet.Open()
			time.Sleep(10 * time.Second)
		}
		assert.LessOrEqual(t, c.probes.Load()-before, int64(240/4))
		assert.True(t, s.isOpen())
		assert.False(t, c.events.ever(health.Suspected, health.Slow))
	})
}

func TestQuietStreamCostsAProbeInTenSeconds(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		each(servers, func(s *server) { s.quiet.Shut() })
		c := connect(t, roundRobin, servers)
		s := c.open(balancer.Streams, nil)
		assert.False(t, s.Quiet())
		time.Sleep(time.Second)
		assert.True(t, s.Quiet())
		time.Sleep(10 * time.Minute)
		assert.True(t, s.Quiet())
		assert.LessOrEqual(t, c.probes.Load(), int64(600/10))
		assert.GreaterOrEqual(t, c.probes.Load(), int64(600/25), "it is checked")
		assert.True(t, s.isOpen())
		assert.False(t, c.events.ever(health.Suspected))
		s.close()
		probes := c.probes.Load()
		time.Sleep(10 * time.Minute)
		assert.LessOrEqual(t, c.probes.Load(), probes+1, "until it ends")
	})
}

func TestQuietStreamIsCutOnAFrozenEndpoint(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		each(servers, func(s *server) { s.quiet.Shut() })
		c := connect(t, roundRobin, servers)
		s := c.open(balancer.Streams, nil)
		time.Sleep(time.Minute)
		c.server(s.Endpoint()).frozen.Shut()
		assert.Error(t, s.endsWithin(t, 22*time.Second))
	})
}

func TestStreamOfASingleEndpointIsNotCut(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, servers []*server) {
		c, s := watching(t, servers)
		servers[0].frozen.Shut()
		time.Sleep(time.Minute)
		servers[0].frozen.Open()
		time.Sleep(time.Second)
		servers[0].quiet.Shut()
		time.Sleep(time.Minute)
		assert.True(t, s.isOpen())
		assert.LessOrEqual(t, c.probes.Load(), int64(4+60/7), "one in 7.5 s while it is quiet")
	})
}

func TestStreamWithoutAProberIsNotCut(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		c := connect(t, roundRobin, servers, unprobed)
		s := c.open(balancer.Streams, nil)
		time.Sleep(5 * time.Second)
		at := c.server(s.Endpoint())
		at.frozen.Shut()
		within(t, time.Second, "suspected", func() bool { return c.is(at) == health.Suspected })
		time.Sleep(time.Minute)
		at.frozen.Open()
		time.Sleep(time.Second)
		assert.True(t, s.isOpen())
		s.close()
		require.NoError(t, c.call(t.Context(), attempt{only: c.endpoint(at)}).err)
		assert.Equal(t, health.Serving, c.is(at))
	})
}

func TestStreamMovesFromAServerThatShutsDown(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		s := c.open(balancer.Streams, c.endpoint(servers[0]))
		stay := []*stream{c.open(balancer.Bulk, c.endpoint(servers[0])), c.open(balancer.Calls, c.endpoint(servers[0]))}
		call := c.starting(1, servers[0], attempt{takes: 3 * time.Second})
		time.Sleep(time.Second)
		go servers[0].stopGracefully() // returns when all have ended
		assert.Equal(t, codes.Unavailable, status.Code(s.endsWithin(t, 10*time.Millisecond)))
		assert.NoError(t, (<-call).err)
		assert.Empty(t, c.events.closedAddresses())
		for _, s := range stay {
			assert.True(t, s.isOpen(), "it may end in time")
			s.close()
		}
	})
}
