package balancer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

func TestFirstWriteAvoidsAStalledEndpoint(t *testing.T) {
	for n := range 3 {
		inBubble(t, 3, func(t *testing.T, servers []*server) {
			s := servers[n]
			s.stalled.Shut()
			c := connect(t, roundRobin, servers)
			for range 10 {
				o := c.write()
				require.NoError(t, o.err)
				assert.LessOrEqual(t, o.took, 2*usual)
				assert.NotEqual(t, s.addr, o.at.Address())
			}
			assert.LessOrEqual(t, c.probes.Load(), int64(6))
		})
	}
}

// The stalled endpoint connects long before the others.
func TestFirstWriteWaitsForAnEndpointThatServes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		s := servers[0]
		s.stalled.Shut()
		each(servers[1:], func(s *server) { s.blackhole.Shut() })
		c := connect(t, roundRobin, servers)
		wrote := make(chan outcome, 1)
		go func() { wrote <- c.write() }()
		time.Sleep(200 * time.Millisecond)
		assert.Empty(t, wrote)
		servers[1].blackhole.Open()
		o := <-wrote
		require.NoError(t, o.err)
		assert.Equal(t, "b", o.at.Address())
		assert.LessOrEqual(t, o.took, 200*time.Millisecond+3*usual)
		assert.Equal(t, health.Unknown, c.is(s))
		servers[2].blackhole.Open()
	})
}

func TestFirstWriteWaitsForHalfASecondAtMost(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		each(servers, func(s *server) { s.delay.Store(int64(700 * time.Millisecond)) })
		c := connect(t, roundRobin, servers)
		o := c.write()
		require.NoError(t, o.err)
		assert.Equal(t, 1200*time.Millisecond, o.took)
		assert.Less(t, c.write().took, 800*time.Millisecond, "only the first write waits")
	})
}

// The first call, as one that fetches a token, shows that one endpoint serves; the writes after it are
// spread over all.
func TestWritesAreSpreadAfterAFirstRead(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := connect(t, roundRobin, servers)
		for _, first := range []func() outcome{c.read, c.write} {
			o := first()
			require.NoError(t, o.err)
			assert.Equal(t, usual, o.took, "it does not wait")
		}
		synctest.Wait() // the others answer at the moment that the write ends
		assert.Equal(t, []int64{10, 10, 10}, received(servers, func() {
			for range 30 {
				require.NoError(t, c.write().err)
			}
		}))
		assert.LessOrEqual(t, c.probes.Load(), int64(2), "one for each of the others")
	})
}

func TestFirstWriteDoesNotWaitWithoutAnotherEndpoint(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, servers []*server) {
		c := connect(t, roundRobin, servers)
		assert.Equal(t, usual, c.write().took)
		assert.Zero(t, c.probes.Load())
	})
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := connect(t, roundRobin, servers, unprobed)
		assert.Equal(t, usual, c.write().took, "no endpoint can be probed")
	})
}

// A sign of life, as for a quiet stream, is no proof of service, and the write does not wait for
// it.
func TestFirstWriteProbesEndpointsThatAreAlive(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		each(servers, func(s *server) { s.quiet.Shut() })
		each(servers[1:], func(s *server) { s.blackhole.Shut() })
		c := connect(t, roundRobin, servers)
		c.open(balancer.Streams, nil)
		time.Sleep(time.Minute)
		require.Equal(t, health.Serving, c.is(servers[0]))
		o := c.write()
		require.NoError(t, o.err)
		assert.LessOrEqual(t, o.took, 2*usual)
		each(servers[1:], func(s *server) { s.blackhole.Open() })
	})
}

// A client that only writes uses endpoints that connect after its first write.
func TestWritesGoToEndpointsThatConnectLater(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		each(servers[1:], func(s *server) { s.blackhole.Shut() })
		c := connect(t, roundRobin, servers)
		require.NoError(t, c.write().err)
		each(servers[1:], func(s *server) { s.blackhole.Open() })
		time.Sleep(time.Second)
		for range 30 {
			require.NoError(t, c.write().err)
		}
		for _, s := range servers[1:] {
			assert.EqualValues(t, 10, s.calls.Load(), s.addr)
		}
		assert.LessOrEqual(t, c.probes.Load(), int64(3))
	})
}
