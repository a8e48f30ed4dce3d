package balancer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

// forget makes all connections to the servers silent. New ones work.
func forget(servers ...*server) {
	for _, s := range servers {
		for _, c := range s.connections() {
			c.frozen.Shut()
		}
	}
}

// dials returns how often the servers were dialed.
func dials(servers []*server) (n int64) {
	for _, s := range servers {
		n += s.dials.Load()
	}
	return n
}

// A NAT forgets all connections of a client: of one endpoint, or of three.
func TestSecondConnectionTakesThePlaceOfASilentOne(t *testing.T) {
	for name, n := range map[string]int{"one endpoint": 1, "three endpoints": 3} {
		subtest(t, name, n, func(t *testing.T, servers []*server) {
			c := warm(t, roundRobin, servers)
			st := c.open(balancer.Streams, c.endpoint(servers[0]))
			c.load(6, 20*time.Millisecond, time.Hour, false)
			time.Sleep(5 * time.Second)
			forget(servers...)
			cut := st.endsWithin(t, 2500*time.Millisecond)
			assert.ErrorContains(t, cut, "is")
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
					for _, s := range servers {
						test.begin(s)
					}
					time.Sleep(8 * time.Second)
					for _, s := range servers {
						test.end(s)
					}
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
