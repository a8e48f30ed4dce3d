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

// A stream whose token is refused is left as soon as another token is known to be
// accepted, whoever it was that found out.
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

// A watch that had paused on a stream whose token was refused since goes on, even
// if the one that was refused has left and so no other stream is known to be better.
func TestPausedWatchResumesAfterARefusedToken(t *testing.T) {
	for name, leave := range map[string]bool{"the refused one has left": true, "the refused one has ended": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, size := unread()
				c.invalidates = true
				e := c.engineWith(t, 2*size, zap.NewNop())
				slow, other := watches(t, e, 1)[0], watches(t, e, 1)[0]
				for rev := range int64(5) {
					c.write(1, "b")
					require.Equal(t, []int64{102 + rev}, other.read(1))
				}
				synctest.Wait()
				require.Equal(t, []int{1}, c.watchers(), "one has paused")
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
				require.Len(t, slow.ch, 1, "it never hears of anything again")
				assert.Equal(t, []int64{106}, slow.read(1))
			})
		})
	}
}
