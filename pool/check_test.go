package pool_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/pool"
)

// A broken resource is replaced before it is lent, and its caller keeps its turn.
func TestCheck(t *testing.T) {
	grpctest.Bubble(t, "idle", func(t *testing.T) {
		p, f := checkedPool(t, nil)
		a, b := acquire(t, p), acquire(t, p)
		a.Value().broken = true
		release(b, a)
		got := acquire(t, p)
		assert.Equal(t, b.Value(), got.Value())
		got.Release()
		assert.EqualValues(t, 1, p.Stats().Destroyed.CheckFailed)
		assert.Equal(t, 1, f.count().alive)
	})
	grpctest.Bubble(t, "all", func(t *testing.T) {
		p, f := checkedPool(t, nil)
		a, b := acquire(t, p), acquire(t, p)
		a.Value().broken, b.Value().broken = true, true
		release(a, b)
		acquire(t, p).Release()
		assert.Equal(t, 3, f.count().made)
		assert.Equal(t, 1, f.count().alive)
	})
	grpctest.Bubble(t, "handed over, and its waiter stays first", func(t *testing.T) {
		p, f := checkedPool(t, func(c *config) { c.MaxSize = 1 })
		r := acquire(t, p)
		first, second := acquiring(t.Context(), p), acquiring(t.Context(), p)
		r.Value().broken = true
		r.Release()
		got := (<-first).ok(t)
		assert.Equal(t, 2, got.Value().id)
		assert.Empty(t, second)
		got.Release()
		(<-second).r.Release()
		assert.Equal(t, 1, f.count().most)
	})
	grpctest.Bubble(t, "created for MinSize", func(t *testing.T) {
		p, _ := newPool(t, func(c *config) {
			c.MinSize = 1
			c.Check = func(context.Context, *thing) error { return errBroken }
		})
		synctest.Wait()
		r := acquire(t, p)
		assert.Equal(t, 2, r.Value().id)
		r.Release()
	})
	grpctest.Bubble(t, "only resources that were idle for CheckAfter", func(t *testing.T) {
		p, _ := checkedPool(t, func(c *config) { c.CheckAfter = time.Minute })
		r := acquire(t, p)
		r.Value().broken = true
		r.Release()
		time.Sleep(time.Minute - 1)
		again := acquire(t, p)
		assert.Equal(t, r.Value(), again.Value())
		again.Release()
		time.Sleep(time.Minute)
		assert.NotSame(t, r.Value(), acquire(t, p).Value())
	})
	grpctest.Bubble(t, "panic", func(t *testing.T) {
		p, _ := newPool(t, func(c *config) {
			c.MaxSize = 1
			c.Check = func(context.Context, *thing) error { panic(errBroken) }
		})
		acquire(t, p).Release()
		assert.PanicsWithValue(t, errBroken, func() { _, _ = p.Acquire(t.Context()) })
		assert.Zero(t, p.Stats().Size)
	})
}

// The end of a caller's context does not affect a resource: Check continues, and its result
// counts.
func TestCheckOutlivesItsCaller(t *testing.T) {
	const takes = 20 * time.Millisecond
	type key struct{}
	pinged := func(t *testing.T, change func(*config)) (*pool.Pool[*thing], *things) {
		return newPool(t, func(c *config) {
			c.Check = func(ctx context.Context, x *thing) error {
				assert.Equal(t, "trace", ctx.Value(key{}))
				if err := pause.For(ctx, takes); err != nil {
					return err
				}
				return check(ctx, x)
			}
			change(c)
		})
	}
	traced := func(t *testing.T) context.Context { return context.WithValue(t.Context(), key{}, "trace") }
	brief := func(t *testing.T, d time.Duration) context.Context {
		return context.WithValue(grpctest.Within(t, d), key{}, "trace")
	}
	grpctest.Bubble(t, "no resource is destroyed", func(t *testing.T) {
		p, f := pinged(t, func(*config) {})
		acquire(t, p).Release()
		for range 100 {
			r, err := p.Acquire(brief(t, takes/2))
			if err == nil {
				r.Release()
				continue
			}
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}
		time.Sleep(takes)
		synctest.Wait()
		assert.Empty(t, f.gone())
		assert.Zero(t, p.Stats().Borrowed)
		assert.Positive(t, p.Stats().Canceled)
	})
	grpctest.Bubble(t, "the waiter gets it without another check", func(t *testing.T) {
		p, _ := pinged(t, func(c *config) { c.MaxSize = 1 })
		r := acquire(t, p)
		r.Release()
		began := time.Now()
		first := acquiring(brief(t, takes/2), p)
		second := acquiring(traced(t), p)
		got := <-first
		assert.ErrorIs(t, got.err, context.DeadlineExceeded)
		assert.Equal(t, takes/2, got.at.Sub(began))
		got = <-second
		require.NoError(t, got.err)
		assert.Equal(t, takes, got.at.Sub(began))
		assert.Equal(t, r.Value(), got.r.Value())
		got.r.Release()
	})
	grpctest.Bubble(t, "it is broken", func(t *testing.T) {
		p, f := pinged(t, func(c *config) { c.MaxSize = 1 })
		r := acquire(t, p)
		r.Value().broken = true
		r.Release()
		_, err := p.Acquire(brief(t, takes/2))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(takes)
		synctest.Wait()
		assert.Equal(t, []int{r.Value().id}, f.gone())
		assert.EqualValues(t, 1, p.Stats().Destroyed.CheckFailed)
	})
	grpctest.Bubble(t, "it takes too long", func(t *testing.T) {
		p, _ := pinged(t, func(c *config) { c.CheckTimeout = takes - 1 })
		r := acquire(t, p)
		r.Release()
		got, err := p.Acquire(traced(t))
		require.NoError(t, err)
		assert.NotSame(t, r.Value(), got.Value())
		got.Release()
	})
	grpctest.Bubble(t, "it counts for CheckAfter", func(t *testing.T) {
		p, _ := pinged(t, func(c *config) { c.CheckAfter = time.Minute })
		acquire(t, p).Release()
		time.Sleep(time.Minute)
		_, err := p.Acquire(brief(t, takes/2))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(takes)
		r, err := p.Acquire(brief(t, takes/2))
		require.NoError(t, err)
		r.Release()
	})
	grpctest.Bubble(t, "the pool is closed", func(t *testing.T) {
		p, f := pinged(t, func(*config) {})
		acquire(t, p).Release()
		got := acquiring(traced(t), p)
		p.Close()
		assert.Equal(t, pool.ErrClosed, (<-got).err)
		assert.Zero(t, f.count().alive)
	})
}

// Idle resources are checked in the background, one at a time.
func TestCheckInterval(t *testing.T) {
	const interval, takes = time.Minute, 100 * time.Millisecond
	grpctest.Bubble(t, "a broken resource is replaced", func(t *testing.T) {
		p, f := checkedPool(t, func(c *config) { c.MinSize, c.MaxIdleTime, c.CheckInterval = 2, 2*interval, interval })
		synctest.Wait()
		a, b := acquire(t, p), acquire(t, p)
		release(a, b)
		time.Sleep(time.Hour)
		assert.Empty(t, f.gone(), "a checked resource is kept")
		r := acquire(t, p)
		r.Value().broken = true
		r.Release()
		time.Sleep(interval)
		synctest.Wait()
		assert.Equal(t, []int{r.Value().id}, f.gone())
		assert.Equal(t, 2, p.Stats().Idle)
	})
	grpctest.Bubble(t, "resources beyond MinSize expire nevertheless", func(t *testing.T) {
		p, f := newPool(t, func(c *config) {
			c.MaxIdleTime, c.CheckInterval = 3*interval, interval
			c.Check = func(context.Context, *thing) error { return nil }
		})
		a, b := acquire(t, p), acquire(t, p)
		a.Release()
		for range 10 {
			time.Sleep(time.Second)
			b.Release()
			time.Sleep(interval - time.Second)
			b = acquire(t, p)
			assert.Equal(t, 2, b.Value().id, "the order of use stays")
		}
		b.Release()
		assert.Equal(t, []int{a.Value().id}, f.gone())
	})
	grpctest.Bubble(t, "one at a time, spread", func(t *testing.T) {
		var checks []time.Time
		checking := 0
		p, _ := newPool(t, func(c *config) {
			c.MinSize, c.MaxSize, c.CheckInterval = 50, 50, interval
			c.Check = func(context.Context, *thing) error {
				checking++
				assert.Equal(t, 1, checking)
				checks = append(checks, time.Now())
				time.Sleep(takes)
				checking--
				return nil
			}
		})
		began := time.Now()
		time.Sleep(interval + 50*takes)
		p.Close()
		time.Sleep(takes) // the last check ends
		synctest.Wait()
		assert.GreaterOrEqual(t, len(checks), 50)
		assert.LessOrEqual(t, len(checks), 150)
		assert.GreaterOrEqual(t, checks[0].Sub(began), interval/2)
	})
	grpctest.Bubble(t, "each in turn, if they take longer than the interval", func(t *testing.T) {
		p, f := newPool(t, func(c *config) {
			c.CheckInterval, c.CheckAfter = takes, interval
			c.Check = func(ctx context.Context, x *thing) error { _ = pause.For(ctx, 2*takes); return check(ctx, x) }
		})
		a, b, last := acquire(t, p), acquire(t, p), acquire(t, p)
		last.Value().broken = true
		release(a, b)
		time.Sleep(time.Nanosecond)
		last.Release()
		time.Sleep(interval)
		assert.Equal(t, []int{last.Value().id}, f.gone())
	})
	grpctest.Bubble(t, "a resource that is being checked counts", func(t *testing.T) {
		p, f := newPool(t, func(c *config) {
			c.MinSize, c.MaxSize, c.WhenFull, c.MaxOverflow, c.CheckInterval = 1, 1, pool.Fail, 1, interval
			c.Check = func(context.Context, *thing) error { time.Sleep(takes); return nil }
		})
		for p.Stats().Borrowed == 0 {
			time.Sleep(takes / 2)
		}
		(<-acquiring(t.Context(), p)).ok(t).Release()
		assert.Equal(t, 1, f.count().made)
	})
	grpctest.Bubble(t, "a check that hangs blocks nobody", func(t *testing.T) {
		p, _ := newPool(t, func(c *config) {
			c.MaxSize, c.CheckInterval, c.MaxIdleTime = 2, interval, 2*interval
			c.Check = func(ctx context.Context, _ *thing) error { <-ctx.Done(); return ctx.Err() }
			c.CheckAfter, c.CheckTimeout = time.Hour, time.Hour
		})
		a, b := acquire(t, p), acquire(t, p)
		release(a, b)
		time.Sleep(interval)
		synctest.Wait()
		assert.Equal(t, 1, p.Stats().Borrowed)
		began := time.Now()
		acquire(t, p).Release()
		assert.Zero(t, time.Since(began))
		time.Sleep(2 * interval)
		synctest.Wait()
		assert.EqualValues(t, 1, p.Stats().Destroyed.IdleTooLong)
	})
}

// checkedPool returns a pool whose things are checked.
func checkedPool(t *testing.T, change func(*config)) (*pool.Pool[*thing], *things) {
	return newPool(t, func(c *config) {
		c.Check = check
		if change != nil {
			change(c)
		}
	})
}
