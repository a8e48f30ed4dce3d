package watch

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func TestBlockedSendDelaysNoOtherStream(t *testing.T) {
	withEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		other := metadata.AppendToOutgoingContext(t.Context(), "group", "other")
		blocked := t.Context()
		c.send = func(ctx context.Context) {
			if md, _ := metadata.FromOutgoingContext(ctx); len(md.Get("group")) == 0 {
				<-ctx.Done()
			}
		}
		first := watch(blocked, e, all(0))
		synctest.Wait()
		second := watch(blocked, e, all(0))
		third := callWatch(other, e, all(0))
		second.cancel()
		<-second.returned
		require.NoError(t, e.RequestProgress(blocked))
		c.write(1, "b")
		assert.Equal(t, []int64{2}, third.read(1))
		e.Close()
		<-first.returned
		assert.EqualValues(t, 1, first.closes.Load())
	})
}

func TestABusyStreamTakesNoMoreWatches(t *testing.T) {
	withEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		heavy := callWatch(t.Context(), e, all(0))
		for range busy / 1000 {
			c.write(1000, "b")
			assert.Len(t, heavy.read(1000), 1000)
		}
		time.Sleep(time.Second)
		beside := callWatch(t.Context(), e, all(0))
		assert.Equal(t, []int{1, 1}, c.watchers())
		beside.cancel()
		time.Sleep(3 * time.Second)
		callWatch(t.Context(), e, all(0))
		assert.Equal(t, []int{2}, c.watchers())
	})
}

func TestAFinalErrorEndsAllWatchesOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		final := status.Error(codes.PermissionDenied, "enough")
		c.next = func(error) error { return final }
		e := c.engine(t)
		calls := []*call{watch(t.Context(), e, all(0)), watch(t.Context(), e, all(0)), watch(t.Context(), e, all(0))}
		for _, w := range calls {
			<-w.returned
		}
		c.write(2, "b")
		c.live()[0].breakDown()
		time.Sleep(time.Hour) // not read
		for _, w := range calls {
			assert.Equal(t, []int64{2, 3}, w.read(2))
			last := <-w.ch
			assert.True(t, last.Canceled)
			assert.Equal(t, final, last.Err)
			_, ok := <-w.ch
			assert.False(t, ok)
			assert.EqualValues(t, 1, w.closes.Load())
		}
		c.next = nil
		w := callWatch(t.Context(), e, all(0))
		c.write(1, "b")
		assert.Equal(t, []int64{4}, w.read(1), "the engine still works")
	})
}

func TestRequestProgress(t *testing.T) {
	withEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		other := metadata.AppendToOutgoingContext(t.Context(), "group", "other")
		require.NoError(t, e.RequestProgress(t.Context()), "without a watch no request is sent")
		assert.Zero(t, c.opened)
		w, o := callWatch(t.Context(), e, all(0)), callWatch(other, e, all(0))
		c.write(1, "b")
		<-w.ch
		<-o.ch
		require.NoError(t, e.RequestProgress(t.Context()))
		r := <-w.ch
		assert.Empty(t, r.Events)
		assert.EqualValues(t, 2, r.Header.Revision)
		synctest.Wait()
		assert.Empty(t, o.ch, "other groups receive nothing")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, e.RequestProgress(ended), context.Canceled)
	})
}

// The engine is closed while watches are opened and cancelled, streams break and move, keys are written, and callers
// read or do not.
func TestCloseUnderLoad(t *testing.T) {
	for seed := range uint64(40) {
		c := newCluster()
		c.invalidates = true
		e := c.engine(t)
		rng := rand.New(rand.NewPCG(seed, 2))
		var users sync.WaitGroup
		var calls []*call
		for i := range 20 {
			w := watch(t.Context(), e, all(int64(rng.IntN(3))))
			calls = append(calls, w)
			if i%2 == 0 {
				users.Go(func() {
					for range w.ch {
					}
				})
			}
		}
		users.Go(func() { c.write(100, "b") })
		users.Go(func() { calls[0].cancel(); calls[1].cancel() })
		users.Go(c.remove)
		users.Go(c.breakAll)
		users.Go(func() { _ = e.RequestProgress(t.Context()) })
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
		e.Close()
		users.Wait()
		for _, w := range calls {
			<-w.returned
			w.cancel()
			assert.EqualValues(t, 1, w.closes.Load(), "seed %d", seed)
		}
	}
}
