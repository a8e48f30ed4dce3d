package watch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A stream is reopened with a token that has expired, over a slow link.
func TestNoCreatesAfterARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		e := c.engine(t)
		calls := watches(t, e, maxWatchers)
		stale := 0 // creates sent with the expired token
		c.expire()
		c.late = 1
		c.send = func(ctx context.Context) {
			time.Sleep(2 * time.Millisecond)
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, st := range c.streams {
				if st.ctx == ctx && st.token != c.token {
					stale++
				}
			}
		}
		c.live()[0].breakDown()
		c.write(3, "b")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.LessOrEqual(t, len(c.invalidated), 3)
		assert.LessOrEqual(t, stale, 3+1, "the first request of a stream asks for progress")
		assert.Equal(t, []int{maxWatchers}, c.watchers())
		for _, w := range calls {
			assertRevisions(t, 2, 4, w.read(3))
		}
	})
}
