package balancer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

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
