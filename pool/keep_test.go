package pool_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/pool"
)

// TestIdleTimeIsFoundWithoutTraffic: what nobody uses goes, down to MinSize, the one that
// was used first first, and then nothing runs any more.
func TestIdleTimeIsFoundWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MinSize, c.MaxIdleTime = 1, time.Minute })
		synctest.Wait()
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
		assert.Len(t, f.gone(), 2, "MinSize")
		assert.EqualValues(t, 2, p.Stats().Destroyed.IdleTooLong)

		// Use keeps it young.
		d, e := acquire(t, p), acquire(t, p)
		for range 5 {
			d.Release()
			time.Sleep(50 * time.Second)
			d = acquire(t, p)
		}
		assert.Len(t, f.gone(), 2)
		d.Release()
		e.Release()
	})
}

func TestLifetime(t *testing.T) {
	inBubble(t, "idle", func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MinSize, c.MaxLifetime, c.LifetimeJitter = 2, time.Hour, -1 })
		synctest.Wait()
		time.Sleep(time.Hour)
		synctest.Wait()
		made, alive, _ := f.counts()
		assert.Equal(t, 4, made, "both are replaced")
		assert.Equal(t, 2, alive)
		assert.EqualValues(t, 2, p.Stats().Destroyed.TooOld)
	})
	inBubble(t, "borrowed", func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MaxLifetime, c.LifetimeJitter = time.Hour, -1 })
		r := acquire(t, p)
		time.Sleep(2 * time.Hour)
		_, alive, _ := f.counts()
		assert.Equal(t, 1, alive, "nothing is destroyed under its borrower")
		r.Release()
		assert.Zero(t, p.Stats().Size)
	})
	inBubble(t, "jitter", func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MaxSize, c.MaxLifetime = 50, time.Hour })
		var all []pool.Resource[*thing]
		for range 50 {
			all = append(all, acquire(t, p))
		}
		for _, r := range all {
			r.Release()
		}
		time.Sleep(time.Hour - 1)
		_, alive, _ := f.counts()
		assert.Equal(t, 50, alive, "no life is shorter")
		time.Sleep(3*time.Minute + 1)
		synctest.Wait()
		_, alive, _ = f.counts()
		assert.Less(t, alive, 50)
		assert.Positive(t, alive)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		_, alive, _ = f.counts()
		assert.Zero(t, alive, "nor longer by more than a tenth")
	})
}

func TestMaxIdle(t *testing.T) {
	p, f := newPool(t, func(c *config) { c.MaxIdle = 1 })
	a, b := acquire(t, p), acquire(t, p)
	a.Release()
	b.Release()
	assert.Equal(t, []int{b.Value().id}, f.gone())
	assert.Equal(t, 1, p.Stats().Idle)
	assert.EqualValues(t, 1, p.Stats().Destroyed.TooManyIdle)
}

// TestMinSize: it is made before anybody asks, and again after each loss.
func TestMinSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MinSize, c.MaxSize = 3, 5 })
		synctest.Wait()
		assert.Equal(t, 3, p.Stats().Idle)
		acquire(t, p).Discard()
		synctest.Wait()
		assert.Equal(t, 3, p.Stats().Idle)
		made, _, _ := f.counts()
		assert.Equal(t, 4, made)
	})
}

// TestMinSizeIsTriedAgain: with pauses that grow.
func TestMinSizeIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &things{t: t, err: errBroken}
		p, err := pool.New(config{Create: f.create, Destroy: f.destroy, MinSize: 2})
		require.NoError(t, err)
		defer p.Close()
		synctest.Wait()
		assert.EqualValues(t, 2, p.Stats().CreateErrors)
		for rounds, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			time.Sleep(pause - 1)
			synctest.Wait()
			assert.EqualValues(t, 2+2*rounds, p.Stats().CreateErrors)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			assert.EqualValues(t, 4+2*rounds, p.Stats().CreateErrors)
		}
		time.Sleep(time.Hour)
		assert.Less(t, p.Stats().CreateErrors, uint64(150), "a minute is the longest pause")
		assert.Greater(t, p.Stats().CreateErrors, uint64(120))

		f.set(func(f *things) { f.err = nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 2, p.Stats().Idle)
	})
}

// TestNoGoroutines: a pool at rest has none, whatever is set.
func TestNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 100 {
		p, _ := newPool(t, func(c *config) { c.MinSize, c.MaxIdleTime, c.MaxLifetime = 1, time.Hour, time.Hour })
		acquire(t, p).Release()
	}
	assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 30*time.Second, time.Millisecond,
		"of which one is that of this condition")
}
