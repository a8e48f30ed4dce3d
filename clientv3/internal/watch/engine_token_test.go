package watch

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// withTokens returns a cluster that can issue a new token, and opens streams slowly.
func withTokens() *cluster {
	c := newCluster()
	c.invalidates = true
	c.open = func(context.Context) error { time.Sleep(time.Millisecond); return nil }
	return c
}

// withTokenEngine runs a test on an engine over such a cluster, in virtual time.
func withTokenEngine(t *testing.T, test func(t *testing.T, c *cluster, e *Engine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		test(t, c, c.engine(t))
	})
}

// watches opens n watches of all keys, and waits until they are created.
func watches(t *testing.T, e *Engine, n int) []*call {
	calls := make([]*call, n)
	for i := range calls {
		calls[i] = watch(t.Context(), e, all(0))
	}
	for _, w := range calls {
		<-w.returned
	}
	return calls
}

func TestAWatchThatIsRefusedTooOftenEndsAlone(t *testing.T) {
	for _, tc := range []struct {
		name        string
		invalidates bool
		refusals    int
	}{{"another token can be had", true, maxRefusals}, {"no other token can be had", false, 1}} {
		t.Run(tc.name, func(t *testing.T) {
			withTokenEngine(t, func(t *testing.T, c *cluster, e *Engine) {
				others := watches(t, e, 5)
				c.invalidates = tc.invalidates
				c.denies, c.spares = rpctypes.ErrGRPCAuthOldRevision.Error(), all(0).Key
				w := callWatch(t.Context(), e, Request{Key: []byte("b")})
				last := <-w.ch
				assert.True(t, last.Canceled)
				assert.Equal(t, c.denies, last.CancelReason)
				assert.Equal(t, rpctypes.ErrAuthOldRevision, last.Err)
				_, ok := <-w.ch
				assert.False(t, ok)
				assert.Len(t, c.invalidated, tc.refusals)
				time.Sleep(2 * maxMoveDelay)
				assert.Equal(t, []int{1}, c.ids(), "the others have not moved: no token is known to be better")
				c.write(1, "b")
				for _, o := range others {
					assert.Equal(t, []int64{2}, o.read(1))
				}
			})
		})
	}
}

// Only consecutive refusals count: a long-lived watch may use any number of tokens.
func TestAWatchOutlivesManyTokens(t *testing.T) {
	withTokenEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		w := watches(t, e, 1)[0]
		for i := range 3 * maxRefusals {
			c.expire()
			c.late = 1
			c.live()[0].breakDown()
			time.Sleep(time.Second)
			require.Len(t, c.live(), 1)
			c.write(1, "b")
			assert.Equal(t, []int64{int64(2 + i)}, w.read(1))
		}
		assert.Len(t, c.invalidated, 3*maxRefusals)
	})
}

// Watches whose token is refused move together, with one new token. Before 3.5.6 etcd answers an unknown token with
// "permission denied".
func TestWatchesOfARefusedTokenShareAStream(t *testing.T) {
	for name, denies := range map[string]bool{"refused": false, "denied": true} {
		t.Run(name+", new watches", func(t *testing.T) {
			withTokenEngine(t, func(t *testing.T, c *cluster, e *Engine) {
				c.deniesBadTokens = denies
				old := watches(t, e, 1)
				c.expire()
				refused := watches(t, e, maxWatchers-1)
				synctest.Wait()
				assert.Equal(t, []int{maxWatchers}, c.watchers(), "at once: the new token may be refused later, too")
				assert.Equal(t, 2, c.opened)
				c.write(1, "b")
				for _, w := range append(old, refused...) {
					assert.Equal(t, []int64{2}, w.read(1))
				}
			})
		})
		for _, n := range []int{1, maxWatchers} {
			t.Run(fmt.Sprintf("%s, %d of a broken stream", name, n), func(t *testing.T) {
				withTokenEngine(t, func(t *testing.T, c *cluster, e *Engine) {
					c.deniesBadTokens = denies
					calls := watches(t, e, n)
					c.write(2, "b")
					synctest.Wait()
					c.expire()
					c.late = 1 // the reopened stream still has the old token
					c.live()[0].breakDown()
					c.write(2, "b")
					time.Sleep(time.Second)
					assert.Equal(t, []int{n}, c.watchers())
					assert.Equal(t, 3, c.opened)
					assert.Len(t, c.invalidated, 1, "the others were not requested")
					c.write(1, "b")
					for _, w := range calls {
						assertRevisions(t, 2, 6, w.read(5))
					}
				})
			})
		}
	}
}

// Streams that were opened before the refusal have the same token.
func TestARefusedWatchMovesToANewerStream(t *testing.T) {
	withTokenEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		first := watches(t, e, maxWatchers)
		watches(t, e, 1)
		time.Sleep(time.Second)
		first[0].cancel() // frees a place
		synctest.Wait()
		c.expire()
		watches(t, e, 1)
		synctest.Wait()
		assert.Equal(t, []int{1, maxWatchers}, c.watchers(), "the other old stream, and a new one")
		assert.Len(t, c.invalidated, 1)
	})
}

func TestDenialIsRetriedOncePerStream(t *testing.T) {
	withTokenEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		others := watches(t, e, 5)
		c.denies, c.spares = rpctypes.ErrGRPCPermissionDenied.Error(), all(0).Key
		for i := range 3 {
			w := callWatch(t.Context(), e, Request{Key: []byte("b")})
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
		c.denies = ""
		c.expire()
		others = append(others, watches(t, e, 1)...)
		assert.Len(t, c.invalidated, 2, "a token that has expired is no denial")
		c.write(1, "b")
		for _, o := range others {
			assert.Equal(t, []int64{2}, o.read(1))
		}
	})
}

// Servers before 3.5.6 report a token that has expired as "permission denied".
func TestTokenExpiresBesidesADenial(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("before: %v", before), func(t *testing.T) {
			withTokenEngine(t, func(t *testing.T, c *cluster, e *Engine) {
				expire := func() {
					time.Sleep(tokenLife)
					c.expire()
				}
				c.deniesBadTokens = true
				old := watches(t, e, 1)
				if before {
					expire()
				}
				c.denies, c.spares = rpctypes.ErrGRPCPermissionDenied.Error(), all(0).Key
				denied := callWatch(t.Context(), e, Request{Key: []byte("b")})
				assert.Equal(t, rpctypes.ErrPermissionDenied, (<-denied.ch).Err)
				c.denies = ""
				if !before {
					expire()
				}
				permitted := watches(t, e, 1)
				c.write(1, "b")
				for _, w := range append(old, permitted...) {
					assert.Equal(t, []int64{2}, w.read(1))
				}
			})
		})
	}
}
