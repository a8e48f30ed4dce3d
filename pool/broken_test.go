package pool_test

import (
	"context"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/pool"
)

// A Create that ends its goroutine, as a test's FailNow does, has failed.
func TestCreateDoesNotReturn(t *testing.T) {
	inBubble(t, "for a caller", func(t *testing.T) {
		p, _ := newPool(t, func(c *config) {
			c.Create = func(context.Context) (*thing, error) { runtime.Goexit(); return nil, nil }
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := p.Acquire(ctx)
		require.ErrorContains(t, err, "Config.Create has not returned")
		stats := p.Stats()
		assert.Zero(t, stats.Size)
		assert.EqualValues(t, 1, stats.CreateErrors)
	})
}

// The caller of Release gets the panic, and the resource is gone.
func TestDestroyPanics(t *testing.T) {
	p, _ := newPool(t, func(c *config) {
		c.MaxSize, c.WhenFull = 1, pool.Fail
		c.Destroy = func(*thing) { panic(errBroken) }
	})
	for range 2 {
		r := acquire(t, p)
		assert.PanicsWithValue(t, errBroken, r.Discard)
		stats := p.Stats()
		assert.Zero(t, stats.Size)
		assert.Zero(t, stats.Destroying)
	}
}

// The same for a resource that is replaced.
func TestDestroyPanicsInAcquire(t *testing.T) {
	p, _ := newPool(t, func(c *config) {
		c.MaxSize, c.WhenFull = 1, pool.Fail
		c.Check = func(context.Context, *thing) error { return errBroken }
		c.Destroy = func(*thing) { panic(errBroken) }
	})
	for range 2 {
		acquire(t, p).Release()
		assert.PanicsWithValue(t, errBroken, func() { _, _ = p.Acquire(t.Context()) })
		assert.Zero(t, p.Stats().Size)
	}
}

// A jitter added to the maximum lifetime does not overflow.
func TestMaximumLifetime(t *testing.T) {
	p, _ := newPool(t, func(c *config) { c.MaxLifetime, c.MaxIdleTime = math.MaxInt64, math.MaxInt64 })
	acquire(t, p).Release()
	assert.Equal(t, 1, p.Stats().Idle)
}
