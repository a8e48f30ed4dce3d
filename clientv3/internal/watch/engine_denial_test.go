package watch

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Before 3.5.6 etcd answers an unknown token with "permission denied".
func TestDenialMayBeCausedByTheToken(t *testing.T) {
	for name, n := range map[string]int{"one watch": 1, "many": maxWatchers} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := withTokens()
				c.curt = true
				e := c.engine(t)
				calls := watches(t, e, n)
				c.expire()
				c.late = 1 // the reopened stream still has the old token
				c.live()[0].breakDown()
				c.write(1, "b")
				for _, w := range calls {
					assert.Equal(t, []int64{2}, w.read(1))
				}
				assert.Len(t, c.invalidated, 1)
			})
		})
	}
	t.Run("new watches on an open stream", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := withTokens()
			c.curt = true
			e := c.engine(t)
			old := watches(t, e, 1)
			c.expire()
			calls := slices.Concat(old, watches(t, e, 20))
			time.Sleep(2 * maxMoveDelay)
			c.write(1, "b")
			for _, w := range calls {
				assert.Equal(t, []int64{2}, w.read(1))
			}
			assert.Equal(t, []int{21}, c.watchers())
		})
	})
}

func TestDenialIsRetriedOncePerStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		e := c.engine(t)
		others := watches(t, e, 5)
		c.denies, c.spares = rpctypes.ErrGRPCPermissionDenied.Error(), all(0).Key
		for i := range 3 {
			w := watch(t.Context(), e, Request{Key: []byte("b")})
			<-w.returned
			last := <-w.ch
			assert.True(t, last.Canceled)
			assert.Equal(t, rpctypes.ErrPermissionDenied, last.Err)
			assert.Len(t, c.invalidated, 1, "denial %d", i)
			synctest.Wait()
		}
		assert.Equal(t, 2, c.opened)
		time.Sleep(2 * maxMoveDelay)
		assert.Equal(t, []int{1}, c.ids(), "the other watches have not moved")
		others = append(others, watches(t, e, 1)...)
		assert.Equal(t, []int{6}, c.watchers(), "the stream accepts other watches")
		c.write(1, "b")
		for _, o := range others {
			assert.Equal(t, []int64{2}, o.read(1))
		}
	})
}

func TestDenialIsFinalWithoutAnotherToken(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.denies = rpctypes.ErrGRPCPermissionDenied.Error()
		w := watches(t, c.engine(t), 1)[0]
		assert.Equal(t, rpctypes.ErrPermissionDenied, (<-w.ch).Err)
		assert.Equal(t, 1, c.opened)
	})
}
