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

func TestFrozenEndpointIsDeadWithinASecond(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		others := c.load(3, 20*time.Millisecond, 10*time.Second, false)
		time.Sleep(200 * time.Millisecond)

		frozen := servers[0]
		frozen.frozen.Shut()
		start := time.Now()
		reads := c.starting(3, frozen, aRead)
		writes := c.starting(3, frozen, aWrite)
		for range 3 {
			o := <-reads
			assert.Error(t, o.cut)
			assert.GreaterOrEqual(t, o.took, 400*time.Millisecond)
			assert.LessOrEqual(t, o.took, 550*time.Millisecond)
		}
		for range 3 {
			o := <-writes
			assert.ErrorContains(t, o.cut, "endpoint a is dead")
			assert.GreaterOrEqual(t, o.took, 850*time.Millisecond, "a pause of 0.8 s is over by then")
			assert.LessOrEqual(t, o.took, 950*time.Millisecond)
		}
		synctest.Wait()
		assert.Equal(t, health.Dead, c.is(frozen))
		assert.Equal(t, []string{"a"}, c.events.closedAddresses())

		time.Sleep(5 * time.Second)
		frozen.frozen.Open()
		within(t, 11*time.Second, "readmitted", func() bool { return c.is(frozen) == health.Serving })
		assert.Greater(t, frozen.callsIn(time.Second), int64(10))
		for _, o := range others.end() {
			if o.err != nil {
				assert.Error(t, o.cut)
				assert.Less(t, o.began, start.Add(200*time.Millisecond), "calls avoid a suspected endpoint")
			}
			assert.Less(t, o.took, time.Second)
		}
	})
}

// A read that ends when its hedge is answered has had no answer of its endpoint.
func TestHedgedReadShowsThatItsEndpointIsFrozen(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		servers[0].frozen.Shut()
		read := c.call(t.Context(), attempt{only: c.endpoint(servers[0]), deadline: 25 * time.Millisecond})
		assert.EqualValues(t, 1, read.overdue)
		within(t, time.Second, "dead", func() bool { return c.is(servers[0]) == health.Dead })
	})
}

// A process pauses for a moment: its reads and streams go elsewhere, its writes are answered.
func TestWritesOutlastAPause(t *testing.T) {
	for _, pause := range []time.Duration{650, 800} {
		withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
			c.load(3, 20*time.Millisecond, 10*time.Second, false)
			for range 4 {
				stream := c.open(balancer.Streams, c.endpoint(servers[0]))
				time.Sleep(100 * time.Millisecond)
				servers[0].frozen.Shut()
				reads, writes := c.starting(12, servers[0], aRead), c.starting(12, servers[0], aWrite)
				time.AfterFunc(pause*time.Millisecond, servers[0].frozen.Open)
				for range 12 {
					assert.Error(t, (<-reads).cut)
					require.NoError(t, (<-writes).err)
				}
				<-stream.ended
				time.Sleep(2 * time.Second)
				require.Equal(t, health.Serving, c.is(servers[0]))
			}
			assert.Empty(t, c.events.closedAddresses())
			assert.EqualValues(t, 1, servers[0].conns.Load())
		})
	}
}

func TestNothingIsEjectedWhenAllAreFrozen(t *testing.T) {
	for n, probes := range map[int]int64{1: 4, 3: 10 + 60/4} {
		withClient(t, n, func(t *testing.T, c *client, servers []*server) {
			time.Sleep(time.Minute)
			var calls []<-chan outcome
			for _, s := range servers {
				s.frozen.Shut()
				calls = append(calls, c.starting(3, s, aRead), c.starting(3, s, aWrite))
			}
			time.Sleep(time.Minute)
			assert.LessOrEqual(t, c.probes.Load(), probes, "the budget")
			for _, s := range servers {
				assert.Equal(t, health.Suspected, c.is(s))
				s.frozen.Open()
			}
			for _, ended := range calls {
				succeed(t, ended)
			}
			o := c.read()
			require.NoError(t, o.err)
			assert.Equal(t, health.Serving, o.at.State())
			for _, s := range servers {
				within(t, time.Second, "the second connection is closed", func() bool { return len(s.connections()) == 1 })
			}
			assert.LessOrEqual(t, dials(servers), int64(n+60/20), "one second connection at a time, while its handshake may succeed")
			assert.Empty(t, c.events.closedAddresses())
		})
	}
}

// Without calls after the outage, one probe each shows that the endpoints serve.
func TestSuspectsServeAgainAfterAnOutageOfAll(t *testing.T) {
	for name, watches := range map[string]bool{"idle": false, "a watch": true} {
		subtest(t, name, 3, func(t *testing.T, servers []*server) {
			c := warm(t, roundRobin, servers)
			var watch *stream
			if watches {
				watch = c.open(balancer.Streams, c.endpoint(servers[0]))
			}
			time.Sleep(time.Minute)
			calls := make([]<-chan outcome, len(servers))
			for i, s := range servers {
				s.frozen.Shut()
				calls[i] = c.starting(1, s, attempt{deadline: 2 * time.Second})
			}
			for _, ended := range calls {
				require.Error(t, (<-ended).err)
			}
			time.Sleep(time.Minute)
			for _, s := range servers {
				require.Equal(t, health.Suspected, c.is(s))
				s.frozen.Open()
			}
			before := c.probes.Load()
			within(t, 15*time.Second, "all serve", func() bool { return allServe(c, servers) })
			time.Sleep(time.Minute)
			assert.LessOrEqual(t, c.probes.Load()-before, int64(9))
			assert.Empty(t, c.events.closedAddresses())
			assert.Equal(t, watches, watch != nil && watch.isOpen(), "nothing was better")
		})
	}
}

// An endpoint that cannot be a witness is not asked to be one.
func TestFrozenEndpointIsDeadWithinASecondBesideDegradedOnes(t *testing.T) {
	for range 3 { // the first witness is random
		withClient(t, 5, func(t *testing.T, c *client, servers []*server) {
			for _, s := range servers[1:4] {
				s.fail.Store(&errNoLeader)
				require.ErrorIs(t, (<-c.starting(1, s, aRead)).err, errNoLeader)
			}
			load := c.load(3, 40*time.Millisecond, time.Hour, false) // which fills the budget
			time.Sleep(10 * time.Second)
			load.end()
			servers[0].frozen.Shut()
			call := c.starting(1, servers[0], aRead)
			within(t, time.Second, "dead", func() bool { return c.is(servers[0]) == health.Dead })
			assert.Error(t, (<-call).cut)
		})
	}
}

// An endpoint freezes again and again. Reads come back at once, writes later each time.
func TestFlappingEndpointLosesFewWrites(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		reads, writes := c.load(10, 100*time.Millisecond, time.Minute, false), c.load(10, 100*time.Millisecond, time.Minute, true)
		for range 6 {
			servers[0].frozen.Shut()
			time.Sleep(2 * time.Second)
			servers[0].frozen.Open()
			within(t, time.Second, "readmitted", func() bool { return c.is(servers[0]) == health.Serving })
			assert.Greater(t, servers[0].callsIn(time.Second), int64(20), "it serves reads")
		}
		_ = reads.end()
		lost := failed(writes.end())
		assert.LessOrEqual(t, lost, 10, "one of each writer, when it first freezes")
		time.Sleep(35 * time.Second)
		before := servers[0].calls.Load()
		write := c.load(1, time.Millisecond, time.Minute, true)
		time.Sleep(time.Second)
		assert.Greater(t, servers[0].calls.Load(), before+90, "it serves writes")
		assert.Zero(t, failed(write.end()))
	})
}

// Where all others are worse, an endpoint that has relapsed gets writes.
func TestRelapsedEndpointGetsWritesWhereNoOtherServes(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		load := c.load(6, 20*time.Millisecond, time.Minute, false)
		for range 3 {
			servers[0].frozen.Shut()
			time.Sleep(time.Second)
			servers[0].frozen.Open()
			within(t, time.Second, "readmitted", func() bool { return c.is(servers[0]) == health.Serving })
		}
		for range 10 {
			assert.Equal(t, servers[1].addr, c.write().at.Address())
		}
		servers[1].kill()
		within(t, time.Second, "gone", func() bool { return c.is(servers[1]) == health.Dead })
		o := c.write()
		require.NoError(t, o.err)
		assert.Equal(t, servers[0].addr, o.at.Address())
		load.end()
	})
}
