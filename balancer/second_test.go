package balancer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

// forget makes all connections to the server silent. New ones work.
func forget(s *server) {
	for _, c := range s.connections() {
		c.frozen.Shut()
	}
}

// A NAT forgets all connections of a client: of one endpoint, or of three.
func TestSecondConnectionTakesThePlaceOfASilentOne(t *testing.T) {
	for name, n := range map[string]int{"one endpoint": 1, "three endpoints": 3} {
		subtest(t, name, n, func(t *testing.T, servers []*server) {
			c := warm(t, roundRobin, servers)
			st := c.open(balancer.Streams, c.endpoint(servers[0]))
			c.load(6, 20*time.Millisecond, time.Hour, false)
			time.Sleep(5 * time.Second)
			each(servers, forget)
			assert.ErrorContains(t, st.endsWithin(t, 2500*time.Millisecond), "is")
			// The first read may be cut with the silent connection of another endpoint.
			within(t, time.Second, "reads are answered", func() bool { return c.read().err == nil })
			within(t, time.Minute, "all serve", func() bool { return allServe(c, servers) })
			assert.LessOrEqual(t, dials(servers), int64(2*n), "a connection each, and one in its place")
		})
	}
}

// Writes on the silent connection are left alone for as long as TCP may need; new ones are not delayed.
func TestWritesOnAReplacedConnectionMayBeAnswered(t *testing.T) {
	withClient(t, 1, func(t *testing.T, c *client, servers []*server) {
		time.Sleep(time.Second)
		old := servers[0].connections()[0]
		old.frozen.Shut()
		write, read := c.starting(1, servers[0], aWrite), c.starting(1, servers[0], aRead)
		cut := <-read
		assert.ErrorContains(t, cut.cut, "a new one does")
		assert.NoError(t, c.write().err)
		old.frozen.Open()
		assert.NoError(t, (<-write).err)
	})
}

// The silent connection is heard again before the second one has answered: that is closed, and was never counted.
func TestSecondConnectionIsNotCounted(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, servers []*server) {
		table := health.NewTable()
		c := warm(t, roundRobin, servers, func(o *balancer.Options) { o.Table = table })
		entry := table.Acquire("", servers[0].addr)
		defer entry.Release()
		c.load(3, 20*time.Millisecond, time.Hour, false)
		time.Sleep(5 * time.Second)
		forget(servers[0])
		within(t, 5*time.Second, "a second connection", func() bool { return len(servers[0].connections()) == 2 })
		servers[0].connections()[0].frozen.Open()
		within(t, 5*time.Second, "it is closed", func() bool { return len(servers[0].connections()) == 1 })
		assert.Equal(t, 1, entry.Connections())
	})
}

// A server that is frozen, or slow to answer, keeps its connection.
func TestSecondConnectionYieldsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		begin, end func(s *server)
	}{
		"frozen": {func(s *server) { s.frozen.Shut() }, func(s *server) { s.frozen.Open() }},
		"blackhole": {
			func(s *server) { s.blackhole.Shut(); forget(s) },
			func(s *server) {
				for _, c := range s.connections() {
					c.frozen.Open()
				}
				time.Sleep(time.Second)
				s.blackhole.Open()
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 3} {
				withClient(t, n, func(t *testing.T, c *client, servers []*server) {
					c.load(3, 60*time.Millisecond, time.Hour, false)
					time.Sleep(5 * time.Second)
					before := dials(servers)
					each(servers, test.begin)
					time.Sleep(8 * time.Second)
					each(servers, test.end)
					within(t, time.Second, "served", func() bool { return c.read().err == nil })
					time.Sleep(10 * time.Second)
					synctest.Wait()
					assert.Empty(t, c.events.closedAddresses())
					assert.LessOrEqual(t, dials(servers)-before, int64(6))
					for _, s := range servers {
						assert.Len(t, s.connections(), 1)
					}
				})
			}
		})
	}
}

// A server that has too much to do answers late again and again.
func TestSimulatedSecondConnectionsToASlowServerAreFew(t *testing.T) {
	withClient(t, 1, func(t *testing.T, c *client, servers []*server) {
		c.load(3, 60*time.Millisecond, time.Hour, false)
		before := dials(servers)
		for range 20 {
			servers[0].frozen.Shut()
			time.Sleep(3 * time.Second)
			servers[0].frozen.Open()
			time.Sleep(7 * time.Second)
		}
		assert.LessOrEqual(t, dials(servers)-before, int64(13))
	})
}

// swallow makes the network to all servers lose everything. heal ends that for new connections; what was sent on
// the others is repeated when they are healed, too.
func swallow(servers []*server) (heal, healOld func()) {
	each(servers, func(s *server) { s.blackhole.Shut() })
	var old []*serverConn
	for _, s := range servers {
		old = append(old, s.connections()...)
	}
	each(servers, forget)
	heal = func() {
		each(servers, func(s *server) { s.blackhole.Open() })
	}
	healOld = func() {
		for _, c := range old {
			c.frozen.Open()
		}
	}
	return heal, healOld
}

// address gives servers IP addresses.
func address(servers []*server) {
	for i, s := range servers {
		s.addr = fmt.Sprintf("192.0.2.%d:2379", i+1)
	}
}

// TCP repeats what was sent during an outage seconds after it. New connections show the end of the outage,
// and writes that began in it were not sent over the old ones.
func TestWritesOfAnOutageOfTheNetworkGoOutAtItsEnd(t *testing.T) {
	for _, n := range []int{1, 3} {
		inBubble(t, n, func(t *testing.T, servers []*server) {
			address(servers)
			c := warm(t, roundRobin, servers)
			c.load(3, 20*time.Millisecond, 10*time.Second, false)
			time.Sleep(5 * time.Second)
			before := dials(servers)
			heal, _ := swallow(servers)
			writes := c.load(3, 20*time.Millisecond, time.Second, true)
			time.Sleep(2 * time.Second)
			_ = writes.end()
			expired, end := context.WithTimeout(t.Context(), time.Second)
			defer end()
			a := &balancer.Attempt{Write: true}
			require.Error(t, aWrite.send(balancer.WithAttempt(expired, a), c))
			assert.False(t, a.MaySent(), "a write that ends in the outage was not sent")
			time.Sleep(7 * time.Second)
			outcomes := make(chan outcome, 20)
			for range cap(outcomes) {
				go func() { outcomes <- c.write() }()
			}
			time.Sleep(time.Second)
			assert.LessOrEqual(t, dials(servers)-before, int64(30), "in 11 s")
			heal()
			healed := time.Now()
			for range cap(outcomes) {
				require.NoError(t, (<-outcomes).err)
			}
			assert.LessOrEqual(t, time.Since(healed), time.Second)
			assert.LessOrEqual(t, dials(servers)-before, int64(30+n))
		})
	}
}

// What was sent on the old connections arrives first.
func TestWritesWaitForASignOfLife(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		address(servers)
		c := warm(t, roundRobin, servers)
		c.load(3, 20*time.Millisecond, 10*time.Second, false)
		time.Sleep(time.Second)
		_, healOld := swallow(servers)
		time.Sleep(3 * time.Second)
		write := make(chan outcome, 1)
		go func() { write <- c.write() }()
		time.Sleep(time.Second)
		healOld()
		healed := time.Now()
		require.NoError(t, (<-write).err)
		assert.LessOrEqual(t, time.Since(healed), 100*time.Millisecond)
	})
}

// Where nothing else waits at the endpoint, a write that waits is a reason for a second connection.
func TestWriteThatWaitsAloneGoesOut(t *testing.T) {
	withClient(t, 1, func(t *testing.T, c *client, servers []*server) {
		each(servers, forget)
		read, end := context.WithTimeout(t.Context(), 800*time.Millisecond)
		defer end()
		require.Error(t, c.call(read, aRead).err)
		o := c.write()
		require.NoError(t, o.err)
		assert.LessOrEqual(t, o.took, 2500*time.Millisecond)
		before := dials(servers)
		time.Sleep(time.Minute)
		assert.Equal(t, before, dials(servers))
	})
}
