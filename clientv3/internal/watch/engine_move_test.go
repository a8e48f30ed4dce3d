package watch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// A stream moves off a removed endpoint at the revision of the store. The move is neither a failure nor a proof of the new
// endpoint.
func TestStreamsLeaveARemovedEndpoint(t *testing.T) {
	withEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		w := callWatch(t.Context(), e, all(0))
		quiet := callWatch(t.Context(), e, Request{Key: []byte("z")})
		c.write(100, "b")
		synctest.Wait()
		worked := c.worked.Load()
		c.remove()
		time.Sleep(maxMoveDelay)
		synctest.Wait()
		require.Equal(t, []int{2}, c.ids())
		assert.Empty(t, c.causes)
		assert.Equal(t, worked, c.worked.Load())
		for _, served := range c.live()[0].srv.watchers {
			assert.EqualValues(t, 102, served.start, "the server was asked for its revision before the move")
		}
		c.write(1, "b", "z")
		assertRevisions(t, 2, 102, w.read(101))
		assert.Equal(t, []int64{102}, quiet.read(1))
		time.Sleep(time.Hour)
		assert.Equal(t, []int{2}, c.ids(), "the stream does not move again")
	})
}

// Clients leave a removed endpoint one by one.
func TestStreamsMoveOneByOne(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		for range 20 {
			watches(t, c.engine(t), 1)
		}
		before := c.live()
		c.remove()
		time.Sleep(maxMoveDelay / 2)
		stayed := slices.DeleteFunc(slices.Clone(before), func(st *stream) bool { return st.ctx.Err() != nil })
		assert.NotEmpty(t, stayed)
		assert.Less(t, len(stayed), len(before))
	})
}

func TestStreamsDoNotOverflowWhenWatchesMove(t *testing.T) {
	withTokenEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		watches(t, e, maxWatchers/2)
		c.expire()
		watches(t, e, maxWatchers*3/4)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, []int{maxWatchers, maxWatchers / 4}, c.watchers())
		assert.Equal(t, []int{2, 3}, c.ids())
	})
}

// A delayed move opens no stream without watches.
func TestCancelledWatchDoesNotMove(t *testing.T) {
	withTokenEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		w := watches(t, e, 1)[0]
		sh := e.groups[""][0]
		left := slices.Collect(maps.Keys(sh.watchers))[0]
		watches(t, e, 1)
		w.cancel()
		synctest.Wait()
		e.move(left, sh, newerLocked)
		time.Sleep(time.Second)
		assert.Equal(t, []int{1}, c.ids())
		assert.Len(t, e.groups[""], 1)
	})
}

// A server has watches on a stream whose token it now refuses. They could stay, but that would keep one more stream open
// forever.
func TestWatchesMoveOffARefusedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		e := c.engineWith(t, 8*eventOverhead, zap.NewNop())
		calls, slow := watches(t, e, 20), watches(t, e, 1)[0]
		quiet := callWatch(t.Context(), e, Request{Key: []byte("z")})
		for rev := range int64(20) {
			c.write(1, "b")
			for _, w := range calls {
				require.Equal(t, []int64{2 + rev}, w.read(1))
			}
		}
		synctest.Wait()
		require.Equal(t, []int{21}, c.watchers(), "one watch has paused")
		before := c.live()[0]

		c.expire()
		opens := make(chan struct{})
		c.open = func(context.Context) error { <-opens; return nil }
		w := watch(t.Context(), e, all(0))
		time.Sleep(time.Minute)
		assert.Equal(t, []int{1}, c.ids(), "they stay until a new token is accepted")
		close(opens)
		<-w.returned
		c.write(1, "b")
		synctest.Wait()
		assert.Equal(t, []int{22}, c.watchers())
		assert.Error(t, before.ctx.Err(), "the old stream must end")
		assert.Empty(t, c.causes, "a move is not a failure")
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

// The stream breaks while a refused watch moves to another one.
func TestReopeningStreamDoesNotMove(t *testing.T) {
	withTokenEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		watches(t, e, 1)
		c.expire()
		opens := make(chan struct{})
		c.open = func(context.Context) error { <-opens; return nil }
		w := watch(t.Context(), e, all(0))
		synctest.Wait()
		c.live()[0].breakDown()
		time.Sleep(time.Second) // both wait for a stream, the refused watch first
		opens <- struct{}{}
		<-w.returned
		opens <- struct{}{}
		time.Sleep(2 * maxMoveDelay)
		assert.Equal(t, []int{2, 3}, c.ids())
		assert.Equal(t, []int{1, 1}, c.watchers())
	})
}

// The context of a stream is derived from that of one caller, however often watches move and catch up.
func TestContextsDoNotGrow(t *testing.T) {
	withTokenEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		var opened []string
		c.open = func(ctx context.Context) error {
			time.Sleep(time.Millisecond)
			c.mu.Lock()
			defer c.mu.Unlock()
			opened = append(opened, fmt.Sprint(ctx))
			return nil
		}
		c.write(20_000, "b")
		watches(t, e, 1)
		for range 5 {
			behind := watch(t.Context(), e, all(2))
			assertRevisions(t, 2, 20_001, behind.read(20_000))
			c.expire()
			other := watches(t, e, 1)[0]
			time.Sleep(2 * maxMoveDelay)
			behind.cancel()
			other.cancel()
			synctest.Wait()
		}
		require.GreaterOrEqual(t, len(opened), 11, "each round opens two")
		for _, made := range opened {
			require.Equal(t, opened[0], made)
		}
	})
}
