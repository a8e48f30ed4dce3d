package pool_test

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/pool"
)

type config = pool.Config[*thing]

// outcome is the result of an Acquire in the background.
type outcome struct {
	r   pool.Resource[*thing]
	err error
	at  time.Time
}

// ok returns the resource.
func (o outcome) ok(t *testing.T) pool.Resource[*thing] {
	t.Helper()
	require.NoError(t, o.err)
	return o.r
}

// acquiring calls Acquire in the background. In a bubble the call waits when acquiring returns.
func acquiring(ctx context.Context, p *pool.Pool[*thing]) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		r, err := p.Acquire(ctx)
		done <- outcome{r, err, time.Now()}
	}()
	synctest.Wait()
	return done
}

func TestLastUsedFirst(t *testing.T) {
	p, f := newPool(t, nil)
	a, b, c := acquire(t, p), acquire(t, p), acquire(t, p)
	release(a, c, b)
	assert.Equal(t, b.Value(), acquire(t, p).Value())
	assert.Equal(t, c.Value(), acquire(t, p).Value())
	assert.Equal(t, a.Value(), acquire(t, p).Value())
	assert.Equal(t, 3, f.count().made)
}

// A resource made ahead is lent after those that were used.
func TestLastUsedFirstOfThoseMadeAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t, func(c *config) { c.MinSize = 3 })
		synctest.Wait()
		a := acquire(t, p)
		a.Release()
		assert.Equal(t, a.Value(), acquire(t, p).Value())
	})
}

// Waiters are served in FIFO order.
func TestWaitersInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t, func(c *config) { c.MaxSize = 1 })
		held := acquire(t, p)
		var waiting []<-chan outcome
		for range 5 {
			waiting = append(waiting, acquiring(t.Context(), p))
		}
		assert.Equal(t, 5, p.Stats().Waiting)
		for i, w := range waiting {
			held.Release()
			synctest.Wait()
			for _, later := range waiting[i+1:] {
				assert.Empty(t, later)
			}
			held = (<-w).r
		}
		held.Release()
	})
}

// With WhenFull Fail, Acquire waits for a resource that is created for no other caller.
func TestFullWhileCreating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := newPool(t, func(c *config) {
			c.MinSize, c.MaxSize, c.WhenFull = 1, 1, pool.Fail
			creating(c, forASecond)
		})
		synctest.Wait()
		first := acquiring(t.Context(), p)
		_, err := p.Acquire(t.Context())
		assert.ErrorIs(t, err, pool.ErrFull, "it is reserved for another caller")
		(<-first).ok(t).Release()
		assert.Equal(t, 1, f.count().made)
	})
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
		assert.Equal(t, 2, p.Stats().Idle)
		assert.EqualValues(t, 2, p.Stats().Destroyed.Overflowed)
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

func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t, func(c *config) { c.MaxSize = 1 })
		held := acquire(t, p)

		ctx := grpctest.Within(t, time.Second)
		began := time.Now()
		_, err := p.Acquire(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(began))

		held.Release()
		_, err = p.Acquire(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded, "even if a resource is idle")
		stats := p.Stats()
		assert.EqualValues(t, 1, stats.Canceled)
		assert.Equal(t, 1, stats.Idle)
		assert.Zero(t, stats.Waiting)

		held = acquire(t, p)
		ctx, cancel := context.WithCancel(t.Context())
		late := acquiring(ctx, p)
		cancel()
		held.Release()
		assert.ErrorIs(t, (<-late).err, context.Canceled)
		assert.EqualValues(t, 2, p.Stats().Canceled, "also of a call that is served at the same moment")
	})
}

// A caller that leaves during Create leaves the resource to the next one.
func TestLateResourceServesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		p, f := newPool(t, func(c *config) {
			creating(c, func(ctx context.Context) error { assert.Equal(t, "trace", ctx.Value(key{})); return nil })
		})
		f.set(func(f *things) { f.gate = make(chan struct{}) })
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "trace"), time.Second)
		defer cancel()
		_, err := p.Acquire(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 1, p.Stats().Creating)
		close(f.gate)
		synctest.Wait()
		assert.Equal(t, 1, p.Stats().Idle)
		acquire(t, p).Release()
		assert.Equal(t, 1, f.count().made)
	})
}

// While Create and Destroy hang, Acquire and Release of other resources continue.
func TestCreateBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MaxSize = 3 })
		a, b := acquire(t, p), acquire(t, p)
		f.set(func(f *things) { f.gate, f.dieGate = make(chan struct{}), make(chan struct{}) })
		waiting := acquiring(t.Context(), p)
		discarded := make(chan struct{})
		go func() { b.Discard(); close(discarded) }()
		synctest.Wait()
		assert.Equal(t, 1, p.Stats().Creating)
		assert.Equal(t, 1, p.Stats().Destroying)

		began := time.Now()
		a.Release()
		a = (<-waiting).ok(t)
		for range 10 {
			a.Release()
			a = acquire(t, p)
		}
		assert.Zero(t, time.Since(began))
		a.Release()
		close(f.gate)
		close(f.dieGate)
		<-discarded
	})
}

func TestCreateFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MaxSize = 2 })
		held := acquire(t, p)
		f.set(func(f *things) { f.err, f.gate = errBroken, make(chan struct{}) })
		own := acquiring(t.Context(), p)
		other := acquiring(t.Context(), p) // at the maximum size, so none is created for it
		close(f.gate)
		assert.Equal(t, errBroken, (<-own).err)
		assert.Equal(t, errBroken, (<-other).err, "the failure freed capacity for it")
		assert.Equal(t, 1, p.Stats().Size)
		assert.EqualValues(t, 2, p.Stats().CreateErrors)
		f.set(func(f *things) { f.err, f.gate = nil, nil })
		acquire(t, p).Release()
		held.Release()
	})
}

func TestCreateTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.CreateTimeout = time.Minute })
		f.set(func(f *things) { f.gate = make(chan struct{}) })
		got := <-acquiring(t.Context(), p)
		assert.ErrorIs(t, got.err, context.DeadlineExceeded)
		assert.Zero(t, p.Stats().Size)
	})
}

// A waiter gets a new resource in place of one that is discarded or hijacked.
func TestLossServesAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MaxSize = 1 })
		r := acquire(t, p)
		for i, lose := range []func(){r.Discard, func() { r.Hijack() }} {
			waiting := acquiring(t.Context(), p)
			lose()
			got := (<-waiting).ok(t)
			assert.NotSame(t, r.Value(), got.Value())
			assert.Equal(t, 1+i, f.count().most, "the discarded one was destroyed before the next was created")
			r = got
		}
		r.Release()
		assert.EqualValues(t, 1, p.Stats().Destroyed.Discarded)
	})
}

// A second Release does nothing, even to the next borrower.
func TestReleaseTwice(t *testing.T) {
	p, f := newPool(t, func(c *config) { c.MaxSize, c.WhenFull = 1, pool.Fail })
	first := acquire(t, p)
	first.Release()
	first.Release()
	assert.Equal(t, 1, p.Stats().Idle)

	second := acquire(t, p)
	require.Equal(t, first.Value(), second.Value())
	first.Release()
	first.Discard()
	_, err := p.Acquire(t.Context())
	assert.ErrorIs(t, err, pool.ErrFull, "it is still lent")
	assert.EqualValues(t, 3, p.Stats().StaleReleases)
	second.Discard()
	second.Release()
	assert.Zero(t, f.count().alive)
	assert.EqualValues(t, 4, p.Stats().StaleReleases)
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

// Close ends waiting calls and destroys idle resources; borrowed ones are destroyed by Release.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := newPool(t, func(c *config) { c.MaxSize = 3 })
		held, broken, idle := acquire(t, p), acquire(t, p), acquire(t, p)
		full := acquiring(t.Context(), p)
		idle.Discard() // frees capacity
		require.NoError(t, (<-full).err)
		again := acquiring(t.Context(), p)
		p.Close()
		assert.Equal(t, pool.ErrClosed, (<-again).err)
		_, err := p.Acquire(t.Context())
		assert.Equal(t, pool.ErrClosed, err)
		p.Close()

		assert.Equal(t, 3, f.count().alive, "all are borrowed")
		held.Release()
		broken.Discard()
		held.Release()
		assert.Equal(t, 1, f.count().alive)
		stats := p.Stats()
		assert.Equal(t, 1, stats.Borrowed)
		assert.EqualValues(t, 1, stats.Destroyed.PoolClosed)
	})
}

// Close ends the context of Create; a resource that it creates nevertheless is destroyed.
func TestCloseEndsCreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan struct{})
		p, f := newPool(t, func(c *config) {
			creating(c, func(ctx context.Context) error { <-ctx.Done(); <-late; return nil })
		})
		waiting := acquiring(t.Context(), p)
		p.Close()
		assert.Equal(t, pool.ErrClosed, (<-waiting).err)
		close(late)
		synctest.Wait()
		assert.Equal(t, 1, f.count().made)
		assert.Zero(t, f.count().alive)
		assert.Zero(t, p.Stats().Size)
	})
}

func TestConfigErrors(t *testing.T) {
	make1 := func(context.Context) (*thing, error) { return nil, nil }
	for _, tt := range []struct {
		config config
		want   string
	}{
		{config{}, "Config.Create is missing; it must make a resource"},
		{config{Create: make1, MaxSize: -1}, "Config.MaxSize is negative; leave it out for its default"},
		{config{Create: make1, MinSize: -1}, "Config.MinSize is negative"},
		{config{Create: make1, MaxIdle: -1}, "Config.MaxIdle is negative"},
		{config{Create: make1, MaxIdleTime: -1}, "Config.MaxIdleTime is negative"},
		{config{Create: make1, MaxLifetime: -1}, "Config.MaxLifetime is negative"},
		{config{Create: make1, CheckAfter: -1}, "Config.CheckAfter is negative"},
		{config{Create: make1, CheckTimeout: -1}, "Config.CheckTimeout is negative"},
		{config{Create: make1, CheckInterval: -1}, "Config.CheckInterval is negative"},
		{config{Create: make1, CheckInterval: 1}, "Config.CheckInterval is set, and Check is missing; it must check a resource"},
		{config{Create: make1, CheckInterval: 30, Check: check}, "Config.CheckInterval is 30ns; it must be at least 1ms, or 0 for no background checks"},
		{config{Create: make1, MaxOverflow: -1}, "Config.MaxOverflow is negative"},
		{config{Create: make1, CreateTimeout: -1}, "Config.CreateTimeout is negative"},
		{config{Create: make1, MinSize: 3, MaxSize: 2}, "Config.MinSize is 3, more than MaxSize, 2; raise MaxSize or leave it out"},
		{config{Create: make1, MinSize: 3, MaxIdle: 2}, "Config.MinSize is 3, more than MaxIdle, 2; raise MaxIdle or leave it out"},
		{config{Create: make1, WhenFull: 2}, "Config.WhenFull is 2; it must be Wait or Fail"},
	} {
		_, err := pool.New(tt.config)
		assert.ErrorContains(t, err, "pool: "+tt.want)
	}
}

// A Create that ends its goroutine, as a test's FailNow does, has failed.
func TestCreateDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t, func(c *config) {
			c.Create = func(context.Context) (*thing, error) { runtime.Goexit(); return nil, nil }
		})
		_, err := p.Acquire(grpctest.Within(t, time.Hour))
		require.ErrorContains(t, err, "Config.Create has not returned")
		stats := p.Stats()
		assert.Zero(t, stats.Size)
		assert.EqualValues(t, 1, stats.CreateErrors)
	})
}

// The caller of Discard, or of Acquire, gets the panic, and the resource is gone.
func TestDestroyPanics(t *testing.T) {
	p, _ := newPool(t, func(c *config) {
		c.MaxSize, c.WhenFull = 1, pool.Fail
		c.Check = func(context.Context, *thing) error { return errBroken }
		c.Destroy = func(*thing) { panic(errBroken) }
	})
	for range 2 {
		assert.PanicsWithValue(t, errBroken, acquire(t, p).Discard)
		acquire(t, p).Release()
		assert.PanicsWithValue(t, errBroken, func() { _, _ = p.Acquire(t.Context()) })
		stats := p.Stats()
		assert.Zero(t, stats.Size)
		assert.Zero(t, stats.Destroying)
	}
}

// Resources that expire together, or end with Reset or Close, are destroyed at the same time.
func TestDestroyAtTheSameTime(t *testing.T) {
	for how, end := range map[string]func(*pool.Pool[*thing]){
		"expiry": func(*pool.Pool[*thing]) {}, "Reset": (*pool.Pool[*thing]).Reset, "Close": (*pool.Pool[*thing]).Close,
	} {
		grpctest.Bubble(t, how, func(t *testing.T) {
			var dying atomic.Int32
			gate := make(chan struct{})
			p, _ := newPool(t, func(c *config) {
				c.MaxIdleTime = time.Minute
				destroy := c.Destroy
				c.Destroy = func(x *thing) { dying.Add(1); <-gate; destroy(x) }
			})
			release(acquire(t, p), acquire(t, p), acquire(t, p))
			go end(p)
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.EqualValues(t, 3, dying.Load())
			close(gate)
		})
	}
}

// A jitter added to the maximum lifetime does not overflow.
func TestMaximumLifetime(t *testing.T) {
	p, _ := newPool(t, func(c *config) { c.MaxLifetime, c.MaxIdleTime = math.MaxInt64, math.MaxInt64 })
	acquire(t, p).Release()
	assert.Equal(t, 1, p.Stats().Idle)
}

// A call of Create serves one waiter, so a server that is down gets no more of them than there are waiters.
func TestCreateFailsOncePerWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, waiters = 10, 40
		var creates atomic.Int32
		down := false
		p, _ := newPool(t, func(c *config) {
			creating(c, func(context.Context) error {
				if !down {
					return nil
				}
				creates.Add(1)
				time.Sleep(time.Second)
				return errBroken
			})
			c.MaxSize = size
		})
		var lent []pool.Resource[*thing]
		for range size {
			lent = append(lent, acquire(t, p))
		}
		var waiting sync.WaitGroup
		for range waiters {
			waiting.Go(func() {
				_, err := p.Acquire(t.Context())
				assert.ErrorIs(t, err, errBroken)
			})
		}
		synctest.Wait()
		down = true
		for _, r := range lent {
			r.Discard()
		}
		waiting.Wait()
		assert.EqualValues(t, waiters, creates.Load())
	})
}
