package watch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A waiting caller makes the next stream open at once. Without one it waits for its backoff.
func TestWakeOfTheNextStream(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(*testing.T, *cluster, *Engine) // then the stream breaks
		during func(*testing.T, *Engine)           // in the pause that follows
		wakes  int
	}{
		{name: "nobody", wakes: 0},
		{
			name: "a watch that is being created",
			before: func(t *testing.T, c *cluster, e *Engine) {
				t.Helper()
				c.live()[0].srv.deaf = true
				watch(t.Context(), e, all(0))
				synctest.Wait()
			},
			wakes: 1,
		},
		{
			name: "progress that was requested",
			before: func(t *testing.T, c *cluster, e *Engine) {
				c.live()[0].srv.deaf = true
				require.NoError(t, e.RequestProgress(t.Context()))
			},
			wakes: 1,
		},
		{
			name:   "a new watch",
			during: func(t *testing.T, e *Engine) { watch(t.Context(), e, all(0)) },
			wakes:  1,
		},
		{
			name:   "a request for progress",
			during: func(t *testing.T, e *Engine) { require.NoError(t, e.RequestProgress(t.Context())) },
			wakes:  1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				c.next = func(error) error { time.Sleep(time.Second); return nil }
				e := c.engine(t)
				watches(t, e, 1)
				if tt.before != nil {
					tt.before(t, c, e)
				}
				c.wakes.Store(0)
				c.live()[0].breakDown()
				synctest.Wait()
				if tt.during != nil {
					tt.during(t, e)
					synctest.Wait()
				}
				assert.EqualValues(t, tt.wakes, c.wakes.Load())
				time.Sleep(2 * time.Second)
				assert.EqualValues(t, tt.wakes, c.wakes.Load(), "an open stream is not woken")
			})
		})
	}
}
