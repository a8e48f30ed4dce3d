package pool_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/pool"
)

// thing is a resource that detects wrong use.
type thing struct {
	id        int
	mu        sync.Mutex
	borrowed  bool
	destroyed bool
	broken    bool
}

// things creates, destroys and counts resources.
type things struct {
	t *testing.T

	mu sync.Mutex
	counts
	destroyed []int
	err       error         // of Create
	gate      chan struct{} // if not nil, Create waits until it is closed
	dieGate   chan struct{} // the same for Destroy
}

// counts are numbers of things.
type counts struct {
	made, alive int
	most        int // maximum of alive
}

var errBroken = errors.New("broken")

func (f *things) create(ctx context.Context) (*thing, error) {
	f.mu.Lock()
	err, gate := f.err, f.gate
	f.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made++
	f.alive++
	f.most = max(f.most, f.alive)
	return &thing{id: f.made}, nil
}

func (f *things) destroy(x *thing) {
	f.mu.Lock()
	gate := f.dieGate
	f.mu.Unlock()
	if gate != nil {
		<-gate
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	assert.False(f.t, x.destroyed, "%d is destroyed twice", x.id)
	assert.False(f.t, x.borrowed, "%d is destroyed while it is borrowed", x.id)
	x.destroyed = true
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alive--
	f.destroyed = append(f.destroyed, x.id)
}

func check(_ context.Context, x *thing) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.broken {
		return errBroken
	}
	return nil
}

func (f *things) set(change func(*things)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *things) count() counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

// forget records that the pool no longer owns a resource.
func (f *things) forget(x *thing) {
	x.mu.Lock()
	defer x.mu.Unlock()
	assert.False(f.t, x.destroyed, "%d is destroyed while another owns it", x.id)
	x.destroyed = true // any later use by the pool fails the test
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alive--
}

// gone returns the destroyed resources, in order.
func (f *things) gone() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.destroyed)
}

// use holds a resource during do.
func use(t *testing.T, r pool.Resource[*thing], do func()) {
	t.Helper()
	x := r.Value()
	x.mu.Lock()
	assert.False(t, x.borrowed, "%d is lent twice", x.id)
	assert.False(t, x.destroyed, "%d is lent after Destroy", x.id)
	x.borrowed = true
	x.mu.Unlock()
	do()
	x.mu.Lock()
	x.borrowed = false
	x.mu.Unlock()
}

// newPool returns a pool of things that is closed at the end of the test.
func newPool(t *testing.T, change func(*pool.Config[*thing])) (*pool.Pool[*thing], *things) {
	t.Helper()
	f := &things{t: t}
	config := pool.Config[*thing]{Create: f.create, Destroy: f.destroy}
	if change != nil {
		change(&config)
	}
	p, err := pool.New(config)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p, f
}

func acquire(t *testing.T, p *pool.Pool[*thing]) pool.Resource[*thing] {
	t.Helper()
	r, err := p.Acquire(t.Context())
	require.NoError(t, err)
	return r
}

func release(all ...pool.Resource[*thing]) {
	for _, r := range all {
		r.Release()
	}
}

// creating lets each Create call first, and fail with its error.
func creating(c *config, first func(context.Context) error) {
	create := c.Create
	c.Create = func(ctx context.Context) (*thing, error) {
		if err := first(ctx); err != nil {
			return nil, err
		}
		return create(ctx)
	}
}

// forASecond is what a slow Create does first.
func forASecond(context.Context) error { time.Sleep(time.Second); return nil }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
