package pool_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/pool"
)

// All operations run concurrently, with a Close in between. No resource has two borrowers, there
// are never more than MaxSize and MaxOverflow, and none leaks.
func TestStorm(t *testing.T) {
	const maxSize, maxOverflow = 5, 2
	for range 5 {
		p, f := newPool(t, func(c *config) {
			broken := func(oneIn int) error {
				if rand.N(oneIn) == 0 {
					return errBroken
				}
				return nil
			}
			creating(c, func(context.Context) error { return broken(10) })
			c.Check = func(context.Context, *thing) error { return broken(20) }
			c.MinSize, c.MaxSize, c.MaxIdle, c.MaxOverflow = 1, maxSize, 3, maxOverflow
			c.MaxIdleTime, c.MaxLifetime, c.CheckInterval = time.Millisecond, 5*time.Millisecond, time.Millisecond
		})
		var all sync.WaitGroup
		for range 24 {
			all.Go(func() {
				for borrow(t, p, f) {
				}
			})
		}
		all.Go(func() {
			for disturb(t, p) {
			}
		})
		assert.Eventually(t, func() bool { return p.Stats().Acquired > 300 }, time.Minute, time.Millisecond)
		p.Close()
		all.Wait()
		assert.Eventually(t, func() bool { return p.Stats().Size == 0 }, 30*time.Second, time.Millisecond)
		assert.Zero(t, f.count().alive)
		assert.LessOrEqual(t, f.count().most, maxSize+maxOverflow)
		stats := p.Stats()
		assert.Zero(t, stats.Waiting)
		assert.Zero(t, stats.Borrowed)
		d := stats.Destroyed
		assert.Equal(t, stats.Created, stats.Hijacked+d.CheckFailed+d.TooOld+d.IdleTooLong+d.TooManyIdle+d.Overflowed+d.Discarded+d.PoolReset+d.PoolClosed)
	}
}

// borrow borrows and returns a resource, and reports whether the pool is open.
func borrow(t *testing.T, p *pool.Pool[*thing], f *things) bool {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(3_000_000)))
	defer cancel()
	work := func(r pool.Resource[*thing]) {
		use(t, r, func() { time.Sleep(time.Duration(rand.N(50_000))) })
	}
	if rand.N(4) == 0 {
		return known(t, p.Do(ctx, func(r pool.Resource[*thing]) error {
			work(r)
			return []error{nil, errBroken, errNotSent}[rand.N(3)]
		}))
	}
	acquire := p.Acquire
	if rand.N(4) == 0 {
		acquire = p.TryAcquire
	}
	r, err := acquire(ctx)
	if err != nil {
		return known(t, err)
	}
	work(r)
	switch rand.N(20) {
	case 0:
		f.forget(r.Value()) // before there is capacity for another
		_, ok := r.Hijack()
		assert.True(t, ok)
	case 1, 2:
		r.Discard()
	default:
		r.Release()
	}
	if rand.N(10) == 0 {
		r.Release()
	}
	return true
}

// disturb calls an operation of the whole pool, and reports whether the pool is open.
func disturb(t *testing.T, p *pool.Pool[*thing]) bool {
	time.Sleep(time.Duration(rand.N(500_000)))
	switch rand.N(3) {
	case 0:
		p.Reset()
	case 1:
		for _, r := range p.AcquireAllIdle() {
			use(t, r, func() {})
			r.ReleaseUnused()
		}
	default:
	}
	return known(t, p.CreateResource(t.Context()))
}

// known fails the test for an unexpected error, and reports whether the pool is open.
func known(t *testing.T, err error) bool {
	for _, e := range []error{nil, pool.ErrClosed, pool.ErrNotAvailable, pool.ErrNotSent, context.DeadlineExceeded, errBroken} {
		if errors.Is(err, e) {
			return !errors.Is(err, pool.ErrClosed)
		}
	}
	assert.NoError(t, err)
	return true
}
