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

// TestStorm: everything at the same time, and Close in the middle of it. No resource has
// two borrowers, there are never more than MaxSize, and none is left.
func TestStorm(t *testing.T) {
	const maxSize = 5
	for range 5 {
		p, f := newPool(t, func(c *config) {
			create := c.Create
			c.Create = func(ctx context.Context) (*thing, error) {
				if rand.N(10) == 0 {
					return nil, errBroken
				}
				return create(ctx)
			}
			c.Check = func(context.Context, *thing) error {
				if rand.N(20) == 0 {
					return errBroken
				}
				return nil
			}
			c.MinSize, c.MaxSize, c.MaxIdle = 1, maxSize, 3
			c.MaxIdleTime, c.MaxLifetime = time.Millisecond, 5*time.Millisecond
		})
		var all sync.WaitGroup
		for range 24 {
			all.Go(func() {
				for borrow(t, p) {
				}
			})
		}
		time.Sleep(150 * time.Millisecond) // the length of the storm
		assert.Positive(t, p.Stats().Acquired)
		p.Close()
		all.Wait()
		assert.Eventually(t, func() bool { return p.Stats().Size == 0 }, 30*time.Second, time.Millisecond)
		_, alive, most := f.counts()
		assert.Zero(t, alive)
		assert.LessOrEqual(t, most, maxSize)
		stats := p.Stats()
		assert.Zero(t, stats.Waiting)
		assert.Equal(t, pool.Stats{}.Borrowed, stats.Borrowed)
		d := stats.Destroyed
		assert.Equal(t, stats.Created, d.CheckFailed+d.TooOld+d.IdleTooLong+d.TooManyIdle+d.Discarded+d.PoolClosed)
	}
}

// borrow borrows and gives back once, and reports whether the pool is open.
func borrow(t *testing.T, p *pool.Pool[*thing]) bool {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(3_000_000)))
	defer cancel()
	r, err := p.Acquire(ctx)
	if err != nil {
		known := errors.Is(err, pool.ErrClosed) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errBroken)
		assert.True(t, known, "%v", err)
		return !errors.Is(err, pool.ErrClosed)
	}
	use(t, r, func() { time.Sleep(time.Duration(rand.N(50_000))) })
	if rand.N(10) == 0 {
		r.Discard()
	} else {
		r.Release()
	}
	if rand.N(10) == 0 {
		r.Release()
	}
	return true
}
