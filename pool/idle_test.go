package pool_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/pool"
)

func TestTryAcquire(t *testing.T) {
	grpctest.Bubble(t, "it does not wait, and starts to create one", func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MaxSize = 2 })
		f.set(func(f *things) { f.gate = make(chan struct{}) })
		for range 10 {
			_, err := p.TryAcquire(t.Context())
			assert.Equal(t, pool.ErrNotAvailable, err)
		}
		synctest.Wait()
		assert.Equal(t, 1, p.Stats().Creating, "one is being created")
		close(f.gate)
		synctest.Wait()
		r, err := p.TryAcquire(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, r.Value().id)
		other := acquire(t, p)
		_, err = p.TryAcquire(t.Context())
		assert.Equal(t, pool.ErrNotAvailable, err)
		assert.Equal(t, 2, p.Stats().Size, "at the maximum size")
		release(r, other)
	})
	grpctest.Bubble(t, "no attempts during the pause after a failure", func(t *testing.T) {
		p, f := newPool(t, nil)
		f.set(func(f *things) { f.err = errBroken })
		for range 1000 {
			_, err := p.TryAcquire(t.Context())
			assert.Equal(t, pool.ErrNotAvailable, err)
			time.Sleep(time.Millisecond)
		}
		assert.LessOrEqual(t, p.Stats().CreateErrors, uint64(3))
	})
	grpctest.Bubble(t, "it checks, and takes the next", func(t *testing.T) {
		p, f := checkedPool(t, nil)
		a, b := acquire(t, p), acquire(t, p)
		a.Release()
		b.Value().broken = true
		b.Release()
		r, err := p.TryAcquire(t.Context())
		require.NoError(t, err)
		assert.Equal(t, a.Value(), r.Value())
		assert.Equal(t, []int{b.Value().id}, f.gone())
		r.Release()
	})
	grpctest.Bubble(t, "the context ends during Check", func(t *testing.T) {
		p, f := newPool(t, func(c *config) {
			c.Check = func(context.Context, *thing) error { time.Sleep(time.Second); return nil }
		})
		acquire(t, p).Release()
		ctx := grpctest.Within(t, time.Millisecond)
		_, err := p.TryAcquire(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = p.TryAcquire(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Empty(t, f.gone())
		assert.Equal(t, 1, p.Stats().Idle)
	})
	grpctest.Bubble(t, "closed", func(t *testing.T) {
		p, _ := newPool(t, nil)
		p.Close()
		_, err := p.TryAcquire(t.Context())
		assert.Equal(t, pool.ErrClosed, err)
	})
}

func TestCreateResource(t *testing.T) {
	grpctest.Bubble(t, "up to MaxSize", func(t *testing.T) {
		p, _ := newPool(t, func(c *config) { c.MaxSize = 2 })
		require.NoError(t, p.CreateResource(t.Context()))
		require.NoError(t, p.CreateResource(t.Context()))
		assert.Equal(t, 2, p.Stats().Idle)
		assert.Equal(t, pool.ErrNotAvailable, p.CreateResource(t.Context()))
	})
	grpctest.Bubble(t, "up to MaxIdle", func(t *testing.T) {
		p, _ := newPool(t, func(c *config) { c.MaxIdle = 1 })
		require.NoError(t, p.CreateResource(t.Context()))
		assert.Equal(t, pool.ErrNotAvailable, p.CreateResource(t.Context()))
	})
	grpctest.Bubble(t, "errors", func(t *testing.T) {
		p, f := newPool(t, nil)
		f.set(func(f *things) { f.err = errBroken })
		assert.Equal(t, errBroken, p.CreateResource(t.Context()))
		assert.Zero(t, p.Stats().Size)

		f.set(func(f *things) { f.err, f.gate = nil, make(chan struct{}) })
		ctx := grpctest.Within(t, time.Second)
		assert.ErrorIs(t, p.CreateResource(ctx), context.DeadlineExceeded)
		assert.ErrorIs(t, p.CreateResource(ctx), context.DeadlineExceeded)
		close(f.gate)
		synctest.Wait()
		assert.Equal(t, 1, p.Stats().Idle, "Create continued")

		f.set(func(f *things) { f.gate = make(chan struct{}) })
		done := make(chan error, 1)
		go func() { done <- p.CreateResource(t.Context()) }()
		synctest.Wait()
		p.Close()
		assert.Equal(t, pool.ErrClosed, <-done)
		assert.Equal(t, pool.ErrClosed, p.CreateResource(t.Context()))
	})
}

// Inspecting a resource without using it does not change its idle time.
func TestAcquireAllIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MaxIdleTime = time.Minute })
		a, b, c := acquire(t, p), acquire(t, p), acquire(t, p)
		a.Release()
		time.Sleep(10 * time.Second)
		b.Release()
		time.Sleep(10 * time.Second)
		all := p.AcquireAllIdle()
		require.Len(t, all, 2)
		assert.Equal(t, []*thing{a.Value(), b.Value()}, []*thing{all[0].Value(), all[1].Value()})
		assert.Empty(t, p.AcquireAllIdle())
		c.Release()
		all[1].ReleaseUnused()
		all[0].ReleaseUnused()
		all[0].ReleaseUnused()
		assert.EqualValues(t, 1, p.Stats().StaleReleases)
		r := acquire(t, p)
		assert.Equal(t, c.Value(), r.Value(), "it is the most recently used")
		time.Sleep(40 * time.Second)
		synctest.Wait()
		assert.Equal(t, []int{a.Value().id}, f.gone())
		r.Release()
		p.Close()
		assert.Empty(t, p.AcquireAllIdle())
	})
}

// No resource that was created before Reset is lent after it.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MinSize, c.MaxSize = 1, 3 })
		synctest.Wait()
		held, idle := acquire(t, p), acquire(t, p)
		idle.Release()
		f.set(func(f *things) { f.gate = make(chan struct{}) })
		// One is being created, for a waiting caller.
		other := acquire(t, p)
		waiting := acquiring(t.Context(), p)
		assert.Equal(t, 1, p.Stats().Creating)
		other.Release()
		(<-waiting).ok(t).Release()
		p.Reset()
		assert.Equal(t, []int{other.Value().id}, f.gone())
		late := acquiring(t.Context(), p)
		close(f.gate)
		got := (<-late).ok(t)
		held.Release()
		synctest.Wait()
		assert.EqualValues(t, 3, p.Stats().Destroyed.PoolReset, "idle, being created, borrowed")
		got.Release()
		time.Sleep(time.Minute)
		assert.EqualValues(t, 3, p.Stats().Destroyed.PoolReset)
		r := acquire(t, p)
		assert.Equal(t, got.Value(), r.Value())
		r.Release()
	})
}

func TestHijack(t *testing.T) {
	p, f := newPool(t, func(c *config) { c.MaxSize = 1 })
	r := acquire(t, p)
	x, ok := r.Hijack()
	assert.True(t, ok)
	assert.Equal(t, r.Value(), x)
	other := acquire(t, p)
	assert.NotSame(t, x, other.Value(), "there is capacity for another")
	r.Release()
	_, ok = r.Hijack()
	assert.False(t, ok)
	stats := p.Stats()
	assert.EqualValues(t, 1, stats.Hijacked)
	assert.EqualValues(t, 2, stats.StaleReleases)
	other.Release()
	p.Close()
	assert.Equal(t, 1, f.count().alive, "the caller owns it")
}

func TestZeroResource(t *testing.T) {
	var r pool.Resource[int]
	r.Release()
	r.Discard()
	_, ok := r.Hijack()
	assert.False(t, ok)
	assert.Zero(t, r.Value())
}

// Up to MaxOverflow further resources are created instead of waiting, for one loan each.
func TestOverflow(t *testing.T) {
	grpctest.Bubble(t, "then it waits", func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MaxSize, c.MaxOverflow = 2, 2 })
		all := []pool.Resource[*thing]{acquire(t, p), acquire(t, p), acquire(t, p), acquire(t, p)}
		waiting := acquiring(t.Context(), p)
		assert.Equal(t, 4, p.Stats().Size)
		all[0].Release()
		got := <-waiting
		assert.Equal(t, all[0].Value(), got.r.Value(), "it goes to a waiter instead of being destroyed")
		release(all[1], all[2])
		assert.Equal(t, []int{2, 3}, f.gone())
		release(all[3], got.r)
		stats := p.Stats()
		assert.Equal(t, 2, stats.Idle)
		assert.EqualValues(t, 2, stats.Destroyed.Overflowed)
	})
	grpctest.Bubble(t, "then it fails", func(t *testing.T) {
		p, _ := newPool(t, func(c *config) { c.MaxSize, c.MaxOverflow, c.WhenFull = 1, 1, pool.Fail })
		a, b := acquire(t, p), acquire(t, p)
		_, err := p.Acquire(t.Context())
		assert.Equal(t, pool.ErrFull, err)
		assert.EqualValues(t, 1, p.Stats().Full)
		release(a, b)
		assert.Equal(t, 1, p.Stats().Idle)
	})
	grpctest.Bubble(t, "only if none is being created", func(t *testing.T) {
		p, f := newPool(t, func(c *config) {
			c.MinSize, c.MaxSize, c.MaxOverflow = 1, 1, 10
			creating(c, forASecond)
		})
		synctest.Wait()
		(<-acquiring(t.Context(), p)).ok(t).Release()
		assert.Equal(t, 1, f.count().made)
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
