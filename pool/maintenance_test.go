package pool_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/pool"
)

// Idle resources expire without traffic, least recently used first.
func TestIdleResourcesExpireWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MaxIdleTime = time.Minute })
		a, b, c := acquire(t, p), acquire(t, p), acquire(t, p)
		a.Release()
		time.Sleep(10 * time.Second)
		b.Release()
		time.Sleep(10 * time.Second)
		c.Release()

		time.Sleep(40*time.Second - 1)
		assert.Equal(t, 3, p.Stats().Idle)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, []int{a.Value().id}, f.gone())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, []int{a.Value().id, b.Value().id}, f.gone())
		time.Sleep(time.Hour)
		assert.Len(t, f.gone(), 3)
		assert.EqualValues(t, 3, p.Stats().Destroyed.IdleTooLong)

		// A use resets the idle time.
		d, e := acquire(t, p), acquire(t, p)
		for range 5 {
			d.Release()
			time.Sleep(50 * time.Second)
			d = acquire(t, p)
		}
		assert.Len(t, f.gone(), 3)
		release(d, e)
	})
}

// A resource beyond its MaxIdleTime is not lent even if MinSize keeps it: it is replaced earlier.
func TestIdleTooLongIsNeverLent(t *testing.T) {
	const limit = 15 * time.Second
	grpctest.Bubble(t, "after hours", func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MinSize, c.MaxIdleTime = 5, limit })
		synctest.Wait()
		time.Sleep(8 * time.Hour)
		synctest.Wait()
		assert.Equal(t, 5, f.count().alive)
		assert.LessOrEqual(t, f.count().made, 5*(2*int(8*time.Hour/limit)+1), "no resource is replaced before half of it")
		r := acquire(t, p)
		assert.Greater(t, r.Value().id, f.count().made-20, "it is one of the last")
		r.Release()
	})
	grpctest.Bubble(t, "the timer is late", func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MaxIdleTime = limit })
		r := acquire(t, p)
		r.Release()
		time.Sleep(limit) // this goroutine and the timer wake at the same moment
		other := acquire(t, p)
		assert.NotSame(t, r.Value(), other.Value())
		other.Release()
		synctest.Wait()
		assert.Equal(t, []int{r.Value().id}, f.gone())
	})
	grpctest.Bubble(t, "those beyond MinSize expire, the others are replaced", func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MinSize, c.MaxIdleTime = 2, limit })
		synctest.Wait()
		all := []pool.Resource[*thing]{acquire(t, p), acquire(t, p), acquire(t, p)}
		release(all...)
		time.Sleep(limit - 1)
		assert.Empty(t, f.gone(), "MinSize keeps none while there are more")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Len(t, f.gone(), 3)
		assert.Equal(t, 2, p.Stats().Idle)
	})
}

// Pools that were filled together do not renew or check their resources together.
func TestPoolsAreSpread(t *testing.T) {
	const pools, interval = 100, 100 * time.Second
	for name, change := range map[string]func(*config, *atomic.Int64){
		"renewed": func(c *config, n *atomic.Int64) {
			c.MaxIdleTime = interval
			creating(c, func(context.Context) error { n.Add(1); return nil })
		},
		"checked": func(c *config, n *atomic.Int64) {
			c.CheckInterval = interval
			c.Check = func(context.Context, *thing) error { n.Add(1); return nil }
		},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			var acts atomic.Int64
			for range pools {
				newPool(t, func(c *config) { c.MinSize = 1; change(c, &acts) })
			}
			total := func() int64 { synctest.Wait(); return acts.Load() }
			first := total()
			before := first
			for second := range 200 {
				time.Sleep(time.Second)
				now := total()
				assert.LessOrEqual(t, now-before, int64(12), "in second %d; the mean is 2 at most", second)
				before = now
			}
			assert.GreaterOrEqual(t, before-first, int64(2*pools))
		})
	}
}

func TestLifetime(t *testing.T) {
	grpctest.Bubble(t, "idle", func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MinSize, c.MaxLifetime, c.LifetimeJitter = 2, time.Hour, -1 })
		synctest.Wait()
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, 4, f.count().made, "both are replaced")
		assert.Equal(t, 2, f.count().alive)
		assert.EqualValues(t, 2, p.Stats().Destroyed.TooOld)
	})
	grpctest.Bubble(t, "borrowed", func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MaxLifetime, c.LifetimeJitter = time.Hour, -1 })
		r := acquire(t, p)
		time.Sleep(2 * time.Hour)
		assert.Equal(t, 1, f.count().alive, "a borrowed resource is not destroyed")
		r.Release()
		assert.Zero(t, p.Stats().Size)
	})
	grpctest.Bubble(t, "jitter", func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MaxSize, c.MaxLifetime = 50, time.Hour })
		for range 50 {
			require.NoError(t, p.CreateResource(t.Context()))
		}
		time.Sleep(time.Hour - 1)
		assert.Equal(t, 50, f.count().alive, "no lifetime is shorter")
		time.Sleep(3*time.Minute + 1)
		synctest.Wait()
		assert.Less(t, f.count().alive, 50)
		assert.Positive(t, f.count().alive)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		assert.Zero(t, f.count().alive, "nor longer by more than a tenth")
	})
	grpctest.Bubble(t, "a millisecond", func(t *testing.T) {
		_, f := newPool(t, func(c *config) { c.MinSize, c.MaxLifetime = 2, time.Millisecond })
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, f.count().made, 2*121, "half a second is the shortest pause")
	})
}

func TestMaxIdle(t *testing.T) {
	p, f := newPool(t, func(c *config) { c.MaxIdle = 1 })
	a, b := acquire(t, p), acquire(t, p)
	release(a, b)
	assert.Equal(t, []int{b.Value().id}, f.gone())
	assert.Equal(t, 1, p.Stats().Idle)
	assert.EqualValues(t, 1, p.Stats().Destroyed.TooManyIdle)
}

// Resources for MinSize are created without an Acquire, and again after each loss.
func TestMinSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MinSize, c.MaxSize = 3, 5 })
		synctest.Wait()
		assert.Equal(t, 3, p.Stats().Idle)
		acquire(t, p).Discard()
		synctest.Wait()
		assert.Equal(t, 3, p.Stats().Idle)
		assert.Equal(t, 4, f.count().made)
	})
}

// Attempts to reach MinSize have growing pauses.
func TestMinSizeIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &things{t: t, err: errBroken}
		p, err := pool.New(config{Create: f.create, Destroy: f.destroy, MinSize: 2})
		require.NoError(t, err)
		defer p.Close()
		synctest.Wait()
		assert.EqualValues(t, 2, p.Stats().CreateErrors)
		for round, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			began := time.Now()
			for p.Stats().CreateErrors < uint64(4+2*round) {
				time.Sleep(time.Millisecond)
				synctest.Wait()
			}
			assert.GreaterOrEqual(t, time.Since(began), pause/2)
			assert.LessOrEqual(t, time.Since(began), pause+time.Millisecond)
		}
		time.Sleep(time.Hour)
		assert.Less(t, p.Stats().CreateErrors, uint64(260), "a minute is the longest pause, half a minute the shortest by then")
		assert.Greater(t, p.Stats().CreateErrors, uint64(120))

		f.set(func(f *things) { f.err = nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 2, p.Stats().Idle)
	})
}

// A pool at rest has no goroutines, whatever the configuration.
func TestNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 100 {
		p, _ := newPool(t, func(c *config) { c.MinSize, c.MaxIdleTime, c.MaxLifetime = 1, time.Hour, time.Hour })
		acquire(t, p).Release()
	}
	assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 30*time.Second, time.Millisecond,
		"one of them runs this condition")
}
