package watch

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
)

// apartNow returns the number of streams for watches that catch up.
func (e *Engine) apartNow() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	count := 0
	for _, shards := range e.groups {
		for _, sh := range shards {
			if sh.bulk {
				count++
			}
		}
	}
	return count
}

func untilSplit(e *Engine) {
	for e.parts.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
}

func TestARefusalIsTheSameErrorWhileTheWatchIsSplit(t *testing.T) {
	for name, behind := range map[string]int{"split": 20_000, "whole": 500} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				c.write(behind, "b")
				e := c.engineWith(t, 16<<20, zap.NewNop())
				w := watch(t.Context(), e, all(2))
				got := w.read(500)
				if name == "split" {
					untilSplit(e)
				}
				c.mu.Lock()
				c.denies = rpctypes.ErrGRPCPermissionDenied.Error()
				c.mu.Unlock()
				for _, st := range c.live() {
					st.breakDown()
				}
				var last Response
				for r := range w.ch {
					last = r
					got = append(got, revisions(r.Events)...)
				}
				assertRevisions(t, 2, int64(len(got))+1, got)
				assert.True(t, last.Canceled)
				assert.Equal(t, rpctypes.ErrPermissionDenied, last.Err)
				assert.Equal(t, rpctypes.ErrGRPCPermissionDenied.Error(), last.CancelReason)
				synctest.Wait()
				assert.Zero(t, e.parts.Load())
				assert.Empty(t, c.live())
			})
		})
	}
}

// A client returns after a long outage with all its watches far behind, and the number of streams of its connection may
// be limited.
func TestManyWatchesCatchUpOverFewStreams(t *testing.T) {
	const (
		many   = 200
		behind = 6_000
	)
	for name, limit := range map[string]int{"without a limit": many, "a limit of 20": 20} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				c.write(behind, "b")
				e := c.engineWith(t, 16<<20, zap.NewNop())
				slots := make(chan struct{}, limit)
				var most atomic.Int64
				c.open = func(ctx context.Context) error {
					if n := int64(e.apartNow()); n > most.Load() {
						most.Store(n)
					}
					select {
					case slots <- struct{}{}:
						context.AfterFunc(ctx, func() { <-slots })
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				var done atomic.Int64
				for range many {
					w := watch(t.Context(), e, all(2))
					go func() {
						if got := w.read(behind); len(got) == behind && got[behind-1] == behind+1 {
							done.Add(1)
						}
					}()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.EqualValues(t, many, done.Load())
				assert.Positive(t, most.Load())
				assert.LessOrEqual(t, most.Load(), int64(maxBulk))
				assert.Zero(t, e.apartNow(), "all watches are back on ordinary streams")
				assert.Zero(t, e.parts.Load())
				total := 0
				for _, n := range c.watchers() {
					total += n
				}
				assert.Equal(t, many, total)
			})
		})
	}
}

// A watch whose caller is slow is not split: the parts would be dropped again when too much waits for the caller.
func TestASlowReadersWatchIsNotSplit(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.write(60_000, "b")
		e := c.engine(t)
		w := watch(t.Context(), e, all(2))
		time.Sleep(time.Minute) // without a reader the watch pauses
		require.Zero(t, e.parts.Load())
		var got []int64
		for len(got) < 60_000 {
			got = append(got, w.read(1)...)
			time.Sleep(200 * time.Millisecond) // for up to 1000 events; the server sends them every 100 ms
			require.Zero(t, e.parts.Load(), "after %d events", len(got))
		}
		assertRevisions(t, 2, 60_001, got)
		synctest.Wait()
		assert.Equal(t, []int{1}, c.watchers())
		assert.Zero(t, e.apartNow())
	})
}

// A watch that pauses while split needs no separate stream.
func TestAPausedWatchDoesNotStayApart(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.write(20_000, "b")
		e := c.engine(t)
		w := watch(t.Context(), e, all(2))
		time.Sleep(time.Minute)
		require.Zero(t, e.parts.Load(), "the watch is paused")
		assertRevisions(t, 2, 20_001, w.read(20_000))
		time.Sleep(time.Minute)
		assert.Zero(t, e.apartNow())
		assert.Equal(t, []int{1}, c.watchers())
	})
}

// Streams for catch-up use the callers' original context, too.
func TestContextsDoNotGrowWithCatchingUp(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		var opened []string
		c.open = func(ctx context.Context) error {
			opened = append(opened, fmt.Sprint(ctx))
			return nil
		}
		c.write(20_000, "b")
		e := c.engine(t)
		other := watch(t.Context(), e, Request{Key: []byte("y")})
		<-other.returned
		for range 5 {
			w := watch(t.Context(), e, all(2))
			assertRevisions(t, 2, 20_001, w.read(20_000))
			w.cancel()
			synctest.Wait()
		}
		require.GreaterOrEqual(t, len(opened), 6)
		for _, made := range opened {
			require.Equal(t, opened[0], made)
		}
	})
}
