package pool_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/pool"
)

var errNotSent = fmt.Errorf("%w: connection reset by peer", pool.ErrNotSent)

func TestDo(t *testing.T) {
	// calls returns a function that records its resources and returns errs in turn.
	calls := func(ids *[]int, errs ...error) func(pool.Resource[*thing]) error {
		return func(r pool.Resource[*thing]) error {
			*ids = append(*ids, r.Value().id)
			return errs[len(*ids)-1]
		}
	}
	grpctest.Bubble(t, "released", func(t *testing.T) {
		p, _ := newPool(t, nil)
		var ids []int
		require.NoError(t, p.Do(t.Context(), calls(&ids, nil)))
		assert.Equal(t, errBroken, p.Do(t.Context(), calls(&ids, nil, errBroken)))
		assert.Equal(t, []int{1, 1}, ids, "an error does not end the resource")
		assert.Equal(t, 1, p.Stats().Idle)
	})
	grpctest.Bubble(t, "repeated with a new resource", func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MaxSize = 2 })
		stale, other := acquire(t, p), acquire(t, p)
		release(other, stale)
		var ids []int
		require.NoError(t, p.Do(t.Context(), calls(&ids, errNotSent, nil)))
		assert.Equal(t, []int{1, 3}, ids, "not with another idle one, which may be stale too")
		assert.Equal(t, []int{1}, f.gone())
		assert.Equal(t, 2, f.count().most)
	})
	grpctest.Bubble(t, "repeated with a new resource, though another is released meanwhile", func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MaxSize = 2 })
		stale, other := acquire(t, p), acquire(t, p)
		stale.Release()
		f.set(func(f *things) { f.gate = make(chan struct{}) })
		var ids []int
		done := make(chan error, 1)
		go func() { done <- p.Do(t.Context(), calls(&ids, errNotSent, nil)) }()
		synctest.Wait()
		other.Release()
		assert.Equal(t, 1, p.Stats().Idle)
		close(f.gate)
		require.NoError(t, <-done)
		assert.Equal(t, []int{1, 3}, ids)
	})
	grpctest.Bubble(t, "repeated only once", func(t *testing.T) {
		p, f := newPool(t, nil)
		var ids []int
		assert.ErrorIs(t, p.Do(t.Context(), calls(&ids, errNotSent, errNotSent)), pool.ErrNotSent)
		assert.Equal(t, []int{1, 2}, ids)
		assert.Equal(t, ids, f.gone())
		assert.EqualValues(t, 2, p.Stats().Destroyed.Discarded)
		assert.Zero(t, p.Stats().StaleReleases)
	})
	grpctest.Bubble(t, "its capacity is kept", func(t *testing.T) {
		p, _ := newPool(t, func(c *config) { c.MaxSize = 1 })
		var waiting <-chan outcome
		var ids []int
		require.NoError(t, p.Do(t.Context(), func(r pool.Resource[*thing]) error {
			if ids = append(ids, r.Value().id); len(ids) == 1 {
				waiting = acquiring(t.Context(), p)
				return errNotSent
			}
			assert.Empty(t, waiting)
			return nil
		}))
		got := (<-waiting).ok(t)
		assert.Equal(t, 2, got.Value().id)
		got.Release()
	})
	grpctest.Bubble(t, "f ends the loan", func(t *testing.T) {
		p, _ := newPool(t, nil)
		var n int
		require.NoError(t, p.Do(t.Context(), func(r pool.Resource[*thing]) error { r.Discard(); return nil }))
		require.NoError(t, p.Do(t.Context(), func(r pool.Resource[*thing]) error { r.Hijack(); return nil }))
		err := p.Do(t.Context(), func(r pool.Resource[*thing]) error { n++; r.Discard(); return errNotSent })
		assert.Equal(t, errNotSent, err)
		assert.Equal(t, 1, n)
		assert.Zero(t, p.Stats().Size)
		assert.Zero(t, p.Stats().StaleReleases)
	})
	grpctest.Bubble(t, "f panics", func(t *testing.T) {
		p, f := newPool(t, nil)
		assert.PanicsWithValue(t, errBroken, func() {
			_ = p.Do(t.Context(), func(pool.Resource[*thing]) error { panic(errBroken) })
		})
		assert.Equal(t, []int{1}, f.gone())
		assert.Zero(t, p.Stats().Size)
	})
}

// While the second resource is created, Create fails, or the caller leaves.
func TestDoWithoutASecondResource(t *testing.T) {
	do := func(ctx context.Context, p *pool.Pool[*thing]) <-chan error {
		done := make(chan error, 1)
		go func() { done <- p.Do(ctx, func(pool.Resource[*thing]) error { return errNotSent }) }()
		synctest.Wait()
		return done
	}
	// gated returns a pool at its maximum size with an idle resource, whose Create blocks.
	gated := func(t *testing.T) (*pool.Pool[*thing], *things) {
		p, f := newPool(t, func(c *config) { c.MaxSize = 1 })
		acquire(t, p).Release()
		f.set(func(f *things) { f.gate = make(chan struct{}) })
		return p, f
	}
	grpctest.Bubble(t, "Create fails", func(t *testing.T) {
		p, f := gated(t)
		f.set(func(f *things) { f.err = errBroken })
		done := do(t.Context(), p)
		waiting := acquiring(t.Context(), p)
		assert.Equal(t, 1, p.Stats().Creating)
		close(f.gate)
		err := <-done
		assert.ErrorIs(t, err, errBroken)
		assert.ErrorIs(t, err, pool.ErrNotSent)
		assert.Equal(t, errBroken, (<-waiting).err, "a waiter uses the capacity")
		assert.Zero(t, p.Stats().Size)
	})
	grpctest.Bubble(t, "the context ends", func(t *testing.T) {
		p, f := gated(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := do(ctx, p)
		waiting := acquiring(t.Context(), p)
		assert.ErrorIs(t, <-done, context.DeadlineExceeded)
		close(f.gate)
		got := (<-waiting).ok(t) // the created resource serves the next caller
		got.Release()
		assert.Equal(t, 1, p.Stats().Idle)
	})
	grpctest.Bubble(t, "the context has ended", func(t *testing.T) {
		p, _ := newPool(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		err := p.Do(ctx, func(pool.Resource[*thing]) error { cancel(); return errNotSent })
		assert.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, p.Stats().Size)
		assert.ErrorIs(t, p.Do(ctx, nil), context.Canceled)
	})
	grpctest.Bubble(t, "the pool is closed", func(t *testing.T) {
		p, f := gated(t)
		done := do(t.Context(), p)
		p.Close()
		assert.ErrorIs(t, <-done, pool.ErrClosed)
		synctest.Wait()
		assert.Zero(t, p.Stats().Size)
		assert.Zero(t, f.count().alive)

		p, _ = newPool(t, nil)
		err := p.Do(t.Context(), func(pool.Resource[*thing]) error { p.Close(); return errNotSent })
		assert.ErrorIs(t, err, pool.ErrClosed)
		assert.Zero(t, p.Stats().Size)
		assert.ErrorIs(t, p.Do(t.Context(), nil), pool.ErrClosed)
	})
}
