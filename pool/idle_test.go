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
		b.Value().broken = true
		release(a, b)
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
