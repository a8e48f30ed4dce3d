package watch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func untilSplit(e *Engine) {
	for e.parts.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
}

// A client returns after a long outage with all its watches far behind, and the number of streams of its connection may
// be limited.
func TestManyWatchesCatchUpOverFewStreams(t *testing.T) {
	const (
		many   = 60
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
					if n := int64(e.dedicatedStreams()); n > most.Load() {
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
				assert.LessOrEqual(t, most.Load(), int64(maxDedicated))
				assert.Zero(t, e.dedicatedStreams(), "all watches are back on ordinary streams")
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
		assert.Zero(t, e.dedicatedStreams())
	})
}

// The caller stops reading while its watch catches up in parts.
func TestASplitWatchPauses(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.write(40_000, "b")
		e := c.engine(t)
		w := callWatch(t.Context(), e, all(2))
		got := w.read(1000)
		untilSplit(e)
		time.Sleep(time.Minute)
		assert.Zero(t, e.parts.Load())
		assert.Equal(t, []int{0}, c.watchers())
		assert.Less(t, e.cfg.Budget.used.Load(), int64(2<<20), "twice the bound of the watch")
		assertRevisions(t, 2, 40_001, append(got, w.read(39_000)...))
		time.Sleep(2 * returnInterval)
		before := c.requests()
		time.Sleep(time.Hour)
		assert.InDelta(t, 60, c.requests()-before, 10, "the stream is an ordinary one again")
	})
}

func TestAWatchFarBehindCatchesUpInParts(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.write(20_000, "b")
		c.write(10, "b", "c")
		c.write(5_000, "z") // not watched: only progress ends the parts without events
		e := c.engine(t)
		beside := callWatch(t.Context(), e, all(0))
		w := watch(t.Context(), e, all(2))
		start := time.Now()
		got := w.read(20_020)
		assert.Less(t, time.Since(start), time.Second, "a serial catch-up takes two seconds")
		require.Len(t, got, 20_020)
		assertRevisions(t, 2, 20_001, got[:20_000])
		time.Sleep(time.Second)
		assert.Equal(t, []int{2}, c.watchers(), "one subscription is left, on the ordinary stream")
		assert.Zero(t, e.parts.Load())
		assert.Zero(t, e.cfg.Budget.used.Load())
		c.write(1, "b")
		assert.Equal(t, []int64{25_012}, w.read(1))
		assert.Equal(t, []int64{25_012}, beside.read(1))
	})
}

// A proxy swallows progress, so nothing ends a part without events.
func TestSilentPartTimesOut(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.become = func(sv *server) { sv.swallowing = true }
		c.write(8_000, "b")
		c.write(6_000, "z")
		e := c.engine(t)
		w := watch(t.Context(), e, all(2))
		got := w.read(8_000)
		synctest.Wait()
		require.Positive(t, e.parts.Load())
		quiet := time.Now()
		for e.parts.Load() > 0 {
			time.Sleep(splitTick)
			synctest.Wait()
		}
		assert.InDelta(t, maxQuiet*splitTick, time.Since(quiet), float64(time.Second))
		assert.Equal(t, []int{1}, c.watchers(), "the watch continues without parts")
		c.write(1, "b")
		got = append(got, w.read(1)...)

		c.live()[0].breakDown()
		c.write(8_000, "b")
		start := time.Now()
		for len(got) < 16_001 {
			require.Zero(t, e.parts.Load(), "the watch is not split again")
			got = append(got, w.read(1)...)
		}
		assertRevisions(t, 2, 8_001, got[:8_000])
		assertRevisions(t, 14_002, 22_002, got[8_000:])
		assert.Less(t, time.Since(start), maxQuiet*splitTick/2)
	})
}

// TestOnlyProvenServersGetParts counts the subscriptions that a watch far behind opens.
func TestOnlyProvenServersGetParts(t *testing.T) {
	for name, test := range map[string]struct {
		become   func(*server)
		disabled bool
		split    bool
	}{
		"etcd":               {become: func(*server) {}, split: true},
		"etcd, switched off": {become: func(*server) {}, disabled: true},
		"etcd 3.5.7":         {become: func(sv *server) { sv.early = true }},
		"grpc-proxy":         {become: func(sv *server) { sv.proxy, sv.swallowing = true, true }},
		"grpc-proxy, merged": {become: func(sv *server) { sv.proxy, sv.swallowing, sv.nameless = true, true, true }},
		"kine":               {become: func(sv *server) { sv.proxy, sv.nameless = true, true }},
		"unknown":            {become: func(sv *server) { sv.nameless = true }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				c.write(20_000, "b")
				c.become = test.become
				cfg := c.config(1<<20, zap.NewNop())
				cfg.DisableSplit = test.disabled
				e := New(cfg)
				t.Cleanup(e.Close)
				w := watch(t.Context(), e, all(2))
				assertRevisions(t, 2, 20_001, w.read(20_000))
				synctest.Wait()
				if test.split {
					assert.Greater(t, c.creates, 5)
				} else {
					assert.Equal(t, 1, c.creates)
				}
				assert.Equal(t, 1, c.opened, "a single watch needs no other stream")
			})
		})
	}
}

func TestAServerThatCannotSplitGetsTheWholeWatch(t *testing.T) {
	for name, become := range map[string]func(*server){
		"early":    func(sv *server) { sv.early = true },
		"proxy":    func(sv *server) { sv.proxy = true },
		"nameless": func(sv *server) { sv.nameless = true },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				c.write(20_000, "b")
				e := c.engine(t)
				c.open = func(context.Context) error {
					if len(c.ids()) == 1 && e.parts.Load() > 0 { // the second stream is for the parts
						c.replaceServers(become)
					}
					return nil
				}
				callWatch(t.Context(), e, Request{Key: []byte("y")})
				w := watch(t.Context(), e, all(2))
				got := w.read(1000)
				synctest.Wait()
				assert.Zero(t, e.parts.Load())
				assert.Equal(t, []int{1, 2}, c.ids())
				assert.Equal(t, []int{1, 1}, c.watchers())
				c.replaceServers(nil)
				c.breakAll()
				for len(got) < 20_000 {
					require.Zero(t, e.parts.Load(), "the watch is not split again")
					got = append(got, w.read(1)...)
				}
				assertRevisions(t, 2, 20_001, got)
			})
		})
	}
}
