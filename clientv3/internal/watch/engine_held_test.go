package watch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// Watches leave a stream with a refused token as soon as a new token is accepted on any stream.
func TestWatchesMoveAfterTheRefusedOneIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		e := c.engine(t)
		watches(t, e, 1)
		c.expire()
		opens := make(chan struct{})
		c.open = func(context.Context) error { <-opens; return nil }
		w := watch(t.Context(), e, all(0))
		time.Sleep(time.Second)
		w.cancel()
		synctest.Wait()
		close(opens)
		watches(t, e, 1)
		time.Sleep(2 * maxMoveDelay)
		assert.Equal(t, []int{2}, c.watchers())
	})
}

// A paused watch on a stream whose token has been refused since resumes even if the refused watch is gone, so that no
// other stream is known to be better.
func TestPausedWatchResumesAfterARefusedToken(t *testing.T) {
	for name, leave := range map[string]bool{"the refused one has left": true, "the refused one has ended": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, size := unread()
				c.invalidates = true
				e := c.engineWith(t, 3*size, zap.NewNop())
				slow, other := watches(t, e, 1)[0], watches(t, e, 1)[0]
				for rev := range int64(5) {
					c.write(1, "b")
					require.Equal(t, []int64{102 + rev}, other.read(1))
				}
				synctest.Wait()
				require.Equal(t, []int{1}, c.watchers(), "one watch has paused")
				if leave {
					c.expire()
					opens := make(chan struct{})
					c.open = func(context.Context) error { <-opens; return nil }
					w := watch(t.Context(), e, all(0))
					synctest.Wait()
					w.cancel()
					close(opens)
				} else {
					c.denies, c.spares = "etcdserver: invalid auth token", all(0).Key
					w := watch(t.Context(), e, Request{Key: []byte("b")})
					require.Error(t, (<-w.ch).Err)
				}
				assertRevisions(t, 102, 105, slow.read(4))
				time.Sleep(time.Minute)
				require.Len(t, slow.ch, 1, "the watch receives nothing more")
				assert.Equal(t, []int64{106}, slow.read(1))
			})
		})
	}
}
