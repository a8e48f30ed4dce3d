package watch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestResumptionIsReportedOnce(t *testing.T) {
	const pause = 300 * time.Millisecond
	t.Run("with the time of all attempts", func(t *testing.T) {
		inBubble(t, func(t *testing.T, c *cluster) {
			var refused atomic.Int32
			c.open = func(context.Context) error {
				if refused.Add(-1) >= 0 {
					return errBroken
				}
				return nil
			}
			c.next = func(error) error {
				time.Sleep(pause)
				return nil
			}
			watches(t, c.engine(t), 3)
			time.Sleep(time.Second)
			require.Empty(t, c.resumptions(), "no stream has broken")
			for range 2 {
				refused.Store(2)
				c.live()[0].breakDown()
				time.Sleep(time.Minute)
			}
			require.Equal(t, []resumption{{3, 3 * pause}, {3, 3 * pause}}, c.resumptions())
		})
	})
	t.Run("when the stream moves", func(t *testing.T) {
		inBubble(t, func(t *testing.T, c *cluster) {
			watches(t, c.engine(t), 2)
			c.remove()
			time.Sleep(2 * maxMoveDelay)
			require.Equal(t, []resumption{{2, 0}}, c.resumptions())
		})
	})
	t.Run("not when no watch had been created", func(t *testing.T) {
		inBubble(t, func(t *testing.T, c *cluster) {
			var opened atomic.Int32
			c.open = func(context.Context) error {
				opened.Add(1)
				return nil
			}
			c.send = func(ctx context.Context) {
				if opened.Load() == 1 {
					<-ctx.Done()
				}
			}
			w := watch(t.Context(), c.engine(t), all(0))
			synctest.Wait()
			c.live()[0].breakDown()
			<-w.returned
			require.EqualValues(t, 2, opened.Load())
			require.Empty(t, c.resumptions())
		})
	})
}
