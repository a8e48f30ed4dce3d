package watch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
)

// withTokens returns a cluster where another token can be had, and where it takes
// its time to open a stream.
func withTokens() *cluster {
	c := newCluster()
	c.disown = true
	c.open = func(context.Context) error { time.Sleep(time.Millisecond); return nil }
	return c
}

// watches starts as many watches of all keys, and waits until they are created.
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

func TestARefusedTokenIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		e := c.engine(t)
		old := watches(t, e, 1)[0]
		c.expire()
		w := watches(t, e, 1)[0]
		assert.Equal(t, []int{1, 1}, c.watchers(), "the watches that the server has stay where they are for now")
		assert.Equal(t, []error{rpctypes.ErrInvalidAuthToken}, c.disowns)
		c.write(1, "b")
		assert.Equal(t, []int64{2}, w.read(1))
		assert.Equal(t, []int64{2}, old.read(1))
		watches(t, e, 1)
		assert.Equal(t, []int{1, 2}, c.watchers(), "a stream whose token is refused takes no more")
		assert.Len(t, c.disowns, 1, "nor is it asked to")
	})
}

func TestTokensAreReplacedAFewTimes(t *testing.T) {
	for _, tc := range []struct {
		name    string
		disown  bool
		streams int
	}{{"another token can be had", true, 1 + maxRefusals}, {"no other token can be had", false, 1}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				c.disown, c.denies = tc.disown, rpctypes.ErrGRPCInvalidAuthToken.Error()
				e := c.engine(t)
				w := watches(t, e, 1)[0]
				last := <-w.ch
				assert.True(t, last.Canceled)
				assert.Equal(t, c.denies, last.CancelReason)
				assert.Equal(t, rpctypes.ErrInvalidAuthToken, last.Err)
				_, ok := <-w.ch
				assert.False(t, ok)
				assert.Equal(t, tc.streams, c.opened)
				synctest.Wait()
				assert.Empty(t, c.live(), "no stream stays without watches")
			})
		})
	}
}

func TestAWatchThatIsRefusedTooOftenEndsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		e := c.engine(t)
		others := watches(t, e, 5)
		c.denies, c.spares = rpctypes.ErrGRPCAuthOldRevision.Error(), all(0).Key
		w := watch(t.Context(), e, Request{Key: []byte("b")})
		<-w.returned
		last := <-w.ch
		assert.True(t, last.Canceled)
		assert.Equal(t, rpctypes.ErrAuthOldRevision, last.Err)
		_, ok := <-w.ch
		assert.False(t, ok)
		assert.Len(t, c.disowns, maxRefusals)
		time.Sleep(2 * maxMoveDelay)
		assert.Equal(t, []int{1}, c.ids(), "the others have not moved: no token is better than theirs")
		c.write(1, "b")
		for _, o := range others {
			assert.Equal(t, []int64{2}, o.read(1))
		}
	})
}

// Refusals count in a row: a watch that lives long may outlive any number of tokens.
func TestAWatchOutlivesManyTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		e := c.engine(t)
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
		assert.Len(t, c.disowns, 3*maxRefusals)
	})
}

func TestWatchesOfARefusedTokenShareAStream(t *testing.T) {
	t.Run("new ones", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := withTokens()
			e := c.engine(t)
			old := watches(t, e, 1)
			c.expire()
			refused := watches(t, e, maxWatchers-1)
			assert.Equal(t, []int{1, maxWatchers - 1}, c.watchers())
			time.Sleep(maxMoveDelay + time.Millisecond)
			synctest.Wait()
			assert.Equal(t, []int{maxWatchers}, c.watchers())
			assert.Equal(t, 2, c.opened)
			c.write(1, "b")
			for _, w := range append(old, refused...) {
				assert.Equal(t, []int64{2}, w.read(1))
			}
		})
	})
	t.Run("those of a stream that broke", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := withTokens()
			e := c.engine(t)
			calls := watches(t, e, maxWatchers)
			c.write(2, "b")
			synctest.Wait()
			c.expire()
			c.late = 1 // it is opened again with the old token
			c.live()[0].breakDown()
			c.write(2, "b")
			time.Sleep(time.Second)
			assert.Equal(t, []int{maxWatchers}, c.watchers())
			assert.Equal(t, 3, c.opened)
			assert.Len(t, c.disowns, 1, "the others were not even asked for")
			c.write(1, "b")
			for _, w := range calls {
				assertRevisions(t, 2, 6, w.read(5))
			}
		})
	})
}

// Streams that were opened before the refusal carry the same token.
func TestARefusedWatchMovesToANewerStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		e := c.engine(t)
		first := watches(t, e, maxWatchers)
		watches(t, e, 1)
		time.Sleep(time.Second)
		first[0].cancel() // there is a place
		synctest.Wait()
		c.expire()
		watches(t, e, 1)
		assert.Equal(t, []int{maxWatchers - 1, 1, 1}, c.watchers())
		assert.Len(t, c.disowns, 1)
	})
}

func TestTokensRefusedOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // the streams are left in any order
			c := withTokens()
			e := c.engine(t)
			for range 3 {
				watches(t, e, 1)
				c.expire()
			}
			watches(t, e, 1)
			time.Sleep(3 * maxMoveDelay)
			assert.Equal(t, []int{4}, c.watchers())
			assert.Len(t, c.disowns, 3, "one refusal of each token")
			e.Close()
		}
	})
}

func TestStreamsDoNotOverflowWhenTheOthersFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		e := c.engine(t)
		watches(t, e, maxWatchers/2)
		c.expire()
		watches(t, e, maxWatchers/2)
		watches(t, e, maxWatchers/4)
		assert.Equal(t, []int{maxWatchers / 2, maxWatchers * 3 / 4}, c.watchers())
		time.Sleep(maxMoveDelay + 10*time.Millisecond)
		synctest.Wait()
		assert.Equal(t, []int{maxWatchers, maxWatchers / 4}, c.watchers())
		assert.Equal(t, []int{2, 3}, c.ids())
	})
}

// TestTheOthersFollow is about watches that a server has on a stream whose token
// it refuses: they could stay, but the stream would be one more, for ever.
func TestTheOthersFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		e := c.engineWith(t, 8*eventOverhead, zap.NewNop())
		calls, slow := watches(t, e, 20), watches(t, e, 1)[0]
		quiet := watch(t.Context(), e, Request{Key: []byte("z")})
		<-quiet.returned
		for rev := range int64(20) {
			c.write(1, "b")
			for _, w := range calls {
				require.Equal(t, []int64{2 + rev}, w.read(1))
			}
		}
		synctest.Wait()
		require.Equal(t, []int{21}, c.watchers(), "one has paused")
		before := c.live()[0]

		c.expire()
		opens := make(chan struct{})
		c.open = func(context.Context) error { <-opens; return nil }
		w := watch(t.Context(), e, all(0))
		time.Sleep(time.Minute)
		assert.Equal(t, []int{1}, c.ids(), "they stay until another token is known to be accepted")
		close(opens)
		<-w.returned
		assert.Equal(t, []int{21, 1}, c.watchers())
		c.write(1, "b")
		time.Sleep(maxMoveDelay + time.Millisecond)
		synctest.Wait()
		assert.Equal(t, []int{22}, c.watchers())
		assert.Error(t, before.ctx.Err(), "the old stream has ended")
		assert.Empty(t, c.causes, "which is no failure")
		c.write(1, "b", "z")
		for _, o := range calls {
			assert.Equal(t, []int64{22, 23}, o.read(2))
		}
		assert.Equal(t, []int64{22, 23}, w.read(2))
		assert.Equal(t, []int64{23}, quiet.read(1))
		assertRevisions(t, 2, 23, slow.read(22))
		time.Sleep(time.Hour)
		assert.Equal(t, []int{2}, c.ids())
		assert.Equal(t, []int{23}, c.watchers())
	})
}

func TestTheOthersFollowAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stayed, tries := 0, 20
		for range tries {
			c := withTokens()
			e := c.engine(t)
			watches(t, e, 1)
			c.expire()
			watches(t, e, 1)
			time.Sleep(maxMoveDelay / 2)
			if len(c.live()) == 2 {
				stayed++
			}
			e.Close()
		}
		assert.Positive(t, stayed)
		assert.Less(t, stayed, tries, "clients do not move in step")
	})
}

func TestAStreamThatIsOpenedAgainCarriesAnotherToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		e := c.engine(t)
		old := watches(t, e, 1)[0]
		c.expire()
		w := watches(t, e, 1)[0]
		w.cancel()
		synctest.Wait()
		c.live()[0].breakDown()
		time.Sleep(2 * maxMoveDelay)
		watches(t, e, 1)
		assert.Equal(t, []int{2}, c.watchers(), "no stream beside it is needed")
		assert.Equal(t, 3, c.opened, "nor did its watches leave it")
		c.write(1, "b")
		assert.Equal(t, []int64{2}, old.read(1))
	})
}

// TestAStreamThatIsBeingOpenedAgainStays is about one that breaks while a refused
// watch is on its way to another.
func TestAStreamThatIsBeingOpenedAgainStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		e := c.engine(t)
		watches(t, e, 1)
		c.expire()
		opens := make(chan struct{})
		c.open = func(context.Context) error { <-opens; return nil }
		w := watch(t.Context(), e, all(0))
		synctest.Wait()
		c.live()[0].breakDown()
		time.Sleep(time.Second) // both wait for a stream, the refused one's first
		opens <- struct{}{}
		<-w.returned
		opens <- struct{}{}
		time.Sleep(2 * maxMoveDelay)
		assert.Equal(t, []int{2, 3}, c.ids())
		assert.Equal(t, []int{1, 1}, c.watchers())
	})
}

func TestATokenIsRefusedDuringCatchup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		c.write(20_000, "b")
		e := c.engine(t)
		w := watch(t.Context(), e, all(2))
		got := w.read(1000)
		time.Sleep(2 * time.Millisecond)
		require.Positive(t, e.parts.Load())
		c.expire() // the parts to come are refused
		got = append(got, w.read(19_000)...)
		assertRevisions(t, 2, 20_001, got)
		assert.NotEmpty(t, c.disowns)
		time.Sleep(maxMoveDelay)
		synctest.Wait()
		assert.Zero(t, e.parts.Load())
		assert.Equal(t, []int{1}, c.watchers())
	})
}
