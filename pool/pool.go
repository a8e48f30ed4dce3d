package pool

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrClosed is the error of calls on a closed pool, and of calls that wait during Close.
var ErrClosed = errors.New("pool: closed")

// ErrFull is the error of Acquire if all resources are borrowed, the pool is at its
// maximum size, and [Config].WhenFull is [Fail].
var ErrFull = errors.New("pool: all resources are borrowed, and the pool is at its maximum size")

// ErrNotAvailable is the error of [Pool.TryAcquire] if no resource is idle, and of
// [Pool.CreateResource] if the pool is at its maximum size, or has MaxIdle idle resources.
var ErrNotAvailable = errors.New("pool: no resource is available now")

// Pool keeps resources that are expensive to create, and lends each to one borrower at a
// time. Its methods may be called concurrently.
type Pool[T any] struct {
	config Config[T]
	timed  bool               // the time of uses is recorded
	ctx    context.Context    // ends with Close
	cancel context.CancelFunc // ends ctx

	mu          sync.Mutex
	closed      bool
	size        int        // resources, including those being created or destroyed
	building    int        // being created
	dying       int        // being destroyed
	checking    int        // being checked in the background: 0 or 1
	resets      int        // how often the pool was reset
	idle        []*item[T] // not borrowed; least recently used first if timed
	waiters     list.List  // elements are *waiter[T], FIFO; while a resource is idle, only waiters for a new one
	loans       uint64     // number of loans so far
	maintenance maintenance
	counts      Stats // what is counted; the other fields are zero
	destroyed   [faults]uint64
}

type item[T any] struct {
	value   T
	created time.Time
	expires time.Time // end of the lifetime; zero: never
	used    time.Time // when it was released or created; zero unless timed
	proven  time.Time // when it was released, created or checked; zero unless timed
	renew   time.Time // when it is replaced if MinSize keeps it idle; zero: never
	check   time.Time // when it is checked, if it is still idle; zero: never
	resets  int       // Pool.resets when it was created
	fresh   bool      // created or checked for its borrower, and not idle since
	loan    uint64    // the current loan; 0: none. Guarded by the pool's lock.
}

// waiter is an Acquire or a Do that waits for a resource.
type waiter[T any] struct {
	ctx      context.Context
	since    time.Time
	anew     bool           // it needs a new resource
	creating bool           // Create is running for it
	place    *list.Element  // nil once it was served
	given    chan result[T] // buffered: receives one result
}

type result[T any] struct {
	item *item[T]
	err  error
}

// New returns a pool and starts to create MinSize resources. An error names the invalid
// field of the configuration. The caller must call [Pool.Close].
func New[T any](config Config[T]) (*Pool[T], error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	p := &Pool[T]{config: config.withDefaults()}
	p.timed = config.MaxIdleTime > 0 || config.CheckAfter > 0 || config.CheckInterval > 0
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refillLocked()
	return p, nil
}

// Acquire borrows a resource: the most recently used idle one, or a new one while there
// are fewer than MaxSize. The caller must release or discard it.
//
// At the maximum size Acquire waits in FIFO order, or returns [ErrFull], see [Config].WhenFull and
// [Config].MaxOverflow. It returns [ErrClosed] if the pool is or becomes closed, the error of
// Create if that fails for it, and an error that wraps ctx.Err() when ctx ends.
func (p *Pool[T]) Acquire(ctx context.Context) (Resource[T], error) {
	it, err := p.next(ctx)
	for err == nil {
		var why fault
		loan := it.loan
		if why, err = p.inspect(ctx, it); err != nil {
			break
		}
		if why == sound {
			return Resource[T]{pool: p, item: it, loan: loan}, nil
		}
		it, err = p.replace(ctx, it, loan, why, false)
	}
	return Resource[T]{}, err
}

// next borrows a resource without checking it.
func (p *Pool[T]) next(ctx context.Context) (*item[T], error) {
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	p.counts.Acquired++
	if it := p.popLocked(); it != nil {
		p.mu.Unlock()
		return it, nil
	}
	spare := p.comingLocked() > p.waiters.Len()
	room := p.size < p.config.MaxSize || (!spare && p.size < p.config.MaxSize+p.config.MaxOverflow)
	if !room && !spare && p.config.WhenFull == Fail {
		p.counts.Full++
		p.mu.Unlock()
		return nil, ErrFull
	}
	w := p.newWaiterLocked(ctx)
	w.place = p.waiters.PushBack(w)
	if room {
		p.size++
		p.buildForLocked(w)
	}
	p.mu.Unlock()
	return p.await(w)
}

func (p *Pool[T]) newWaiterLocked(ctx context.Context) *waiter[T] {
	p.counts.Waited++
	return &waiter[T]{ctx: ctx, since: time.Now(), given: make(chan result[T], 1)}
}

// popLocked lends the most recently used idle resource, if there is one.
func (p *Pool[T]) popLocked() *item[T] {
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	it := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	p.lendLocked(it)
	return it
}

func (p *Pool[T]) lendLocked(it *item[T]) {
	p.loans++
	it.loan = p.loans
}

func (p *Pool[T]) await(w *waiter[T]) (*item[T], error) {
	select {
	case got := <-w.given:
		return got.item, got.err
	case <-w.ctx.Done():
	}
	p.mu.Lock()
	var got result[T]
	if w.place != nil {
		p.removeWaiterLocked(w)
	} else if got = <-w.given; got.err != nil {
		p.mu.Unlock()
		return nil, got.err
	}
	p.counts.Canceled++
	p.mu.Unlock()
	if got.item != nil {
		p.giveBack(got.item, got.item.loan, sound, unused)
	}
	return nil, ended(w.ctx)
}

func (p *Pool[T]) removeWaiterLocked(w *waiter[T]) {
	p.waiters.Remove(w.place)
	w.place = nil
	p.counts.WaitTime += time.Since(w.since)
}

// firstWaiterLocked returns the first waiter for a resource, nil if there is none. anew says that the
// resource is new.
func (p *Pool[T]) firstWaiterLocked(anew bool) *waiter[T] {
	for place := p.waiters.Front(); place != nil; place = place.Next() {
		if w := place.Value.(*waiter[T]); anew || !w.anew {
			return w
		}
	}
	return nil
}

// offerLocked passes a resource to the first waiter for it, or keeps it idle. It returns why the
// resource must be destroyed instead, or sound.
func (p *Pool[T]) offerLocked(it *item[T], anew bool) fault {
	it.loan = 0
	switch {
	case p.closed:
		return poolClosed
	case it.resets != p.resets:
		return poolReset
	}
	if w := p.firstWaiterLocked(anew); w != nil {
		p.removeWaiterLocked(w)
		p.lendLocked(it)
		w.given <- result[T]{item: it}
		return sound
	}
	switch {
	case p.size-p.dying > p.config.MaxSize:
		return overflowed
	case len(p.idle) >= p.config.MaxIdle:
		return tooManyIdle
	}
	it.fresh = false
	p.setIdleTimesLocked(it)
	at := len(p.idle)
	for at > 0 && p.timed && p.idle[at-1].used.After(it.used) {
		at--
	}
	p.idle = slices.Insert(p.idle, at, it)
	p.scheduleItemLocked(it)
	return sound
}

// usage is what happened to a resource during a loan.
type usage uint8

const (
	used    usage = iota // it was used
	unused               // nothing
	checked              // it was checked
)

// noteUseLocked records the end of a use. For a waiter, a checked resource counts as fresh. A check does
// not count as a use, unless checks keep the resource alive.
func (p *Pool[T]) noteUseLocked(it *item[T], how usage, now time.Time) {
	it.fresh = how == checked
	if how != unused {
		it.proven = now
	}
	if how == used || (how == checked && p.sparesLocked() <= 0) {
		it.used = now
	}
}

// giveBack ends a loan, and reports whether this call ended it.
func (p *Pool[T]) giveBack(it *item[T], loan uint64, why fault, how usage) bool {
	now := p.now(it)
	p.mu.Lock()
	if it.loan != loan {
		p.mu.Unlock()
		return false
	}
	p.noteUseLocked(it, how, now)
	if why == sound {
		why = p.expiry(it, now)
	}
	if why == sound {
		why = p.offerLocked(it, false)
	}
	if why != sound {
		it.loan = 0
		p.dying++
	}
	p.mu.Unlock()
	if why != sound {
		p.destroy(it, why)
	}
	return true
}

// Close closes the pool. Waiting and later calls get [ErrClosed]. Idle resources are
// destroyed before Close returns, borrowed ones when they are released. The context of
// running Create calls ends; if they create a resource nevertheless, it is destroyed.
// Close does not wait for these. A second Close does nothing.
func (p *Pool[T]) Close() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.dying += len(idle)
	p.closed = true
	for p.waiters.Len() > 0 {
		w := p.waiters.Front().Value.(*waiter[T])
		p.removeWaiterLocked(w)
		w.given <- result[T]{err: ErrClosed}
	}
	p.maintenance.stop()
	p.mu.Unlock()
	p.cancel()
	p.destroyAll(idle, poolClosed)
}

func ended(ctx context.Context) error {
	return fmt.Errorf("pool: no resource could be acquired: %w", ctx.Err())
}

// Resource is a loan of a resource of a [Pool]. It is a small value and may be copied; all
// copies are the same loan. A failed Acquire returns the zero value, whose methods may all
// be called.
type Resource[T any] struct {
	pool *Pool[T]
	item *item[T]
	loan uint64
}

// Value returns the resource. The caller may use it until Release, ReleaseUnused or Discard.
func (r Resource[T]) Value() T {
	if r.item == nil {
		var none T
		return none
	}
	return r.item.value
}

// Release returns the resource to the pool. It is destroyed if it is too old, if MaxIdle others are
// idle, if there are more than MaxSize, or if the pool was reset or closed; then Release returns
// after Destroy. If the loan has already ended, Release does nothing but count it in Stats.
func (r Resource[T]) Release() { r.end(sound, used) }

// ReleaseUnused returns the resource without counting the loan as a use: its idle time
// continues. Use it after inspecting a resource, see [Pool.AcquireAllIdle].
func (r Resource[T]) ReleaseUnused() { r.end(sound, unused) }

// Discard ends the loan and destroys the resource, for example because it is broken. If the
// loan has already ended, Discard does nothing but count it in Stats.
func (r Resource[T]) Discard() { r.end(discarded, used) }

// Hijack ends the loan and removes the resource from the pool, which may create another. The
// caller owns the value and must free it as Destroy does. If the loan has already ended, ok is
// false, the caller must not use the value, and Stats counts it.
func (r Resource[T]) Hijack() (value T, ok bool) {
	if r.item == nil {
		return value, false
	}
	p := r.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.item.loan != r.loan {
		p.counts.StaleReleases++
		return value, false
	}
	r.item.loan = 0
	p.size--
	p.counts.Hijacked++
	p.refillLocked()
	return r.item.value, true
}

func (r Resource[T]) end(why fault, how usage) {
	if r.item == nil || r.pool.giveBack(r.item, r.loan, why, how) {
		return
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.pool.counts.StaleReleases++
}
