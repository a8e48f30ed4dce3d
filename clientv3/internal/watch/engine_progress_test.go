package watch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// requests returns the number of progress requests that the servers received.
func (c *cluster) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func TestProgressRequestsOfTheEngine(t *testing.T) {
	for _, tc := range []struct {
		name   string
		become func(*server)
		hourly int // minimum
	}{
		{"a server", func(*server) {}, 50},
		{"a proxy that does not echo ids", func(sv *server) { sv.proxy = true }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				c.become = tc.become
				e := c.engine(t)
				w := watches(t, e, 2)[0]
				assert.Equal(t, 1, c.requests(), "every stream starts with one")
				time.Sleep(time.Hour)
				own := c.requests() - 1
				assert.GreaterOrEqual(t, own, tc.hourly)
				if tc.hourly == 0 {
					assert.Zero(t, own)
				}
				c.write(1, "z")
				require.NoError(t, e.RequestProgress(t.Context()))
				assert.EqualValues(t, 2, (<-w.ch).Header.Revision, "a caller's request is sent")
				assert.Equal(t, 2+own, c.requests())
				c.live()[0].breakDown()
				time.Sleep(time.Second)
				assert.Equal(t, 3+own, c.requests())
			})
		})
	}
}

// A stream that moves first asks for the revision, except where each request costs a line in a proxy's log.
func TestSerialStreamMovesWithoutProgressRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.become = func(sv *server) { sv.proxy = true }
		e := c.engine(t)
		w := watches(t, e, 1)[0]
		c.remove()
		time.Sleep(2 * maxMoveDelay)
		assert.Equal(t, []int{2}, c.ids())
		assert.Equal(t, 2, c.requests(), "one at the start of each stream")
		c.write(1, "b")
		assert.Equal(t, []int64{2}, w.read(1))
	})
}
