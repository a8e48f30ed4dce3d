package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// TryAcquire borrows a resource if one is idle, and returns [ErrNotAvailable] otherwise. It waits
// only for Check, until ctx ends. If no resource is idle or being created and there are fewer
// than MaxSize, one is created in the background, but not while Create fails, see
// [Config].MinSize. Its other errors are those of [Pool.Acquire].
func (p *Pool[T]) TryAcquire(ctx context.Context) (Resource[T], error) {
	if ctx.Err() != nil {
		return Resource[T]{}, ended(ctx)
	}
	p.mu.Lock()
	if !p.closed {
		p.counts.Acquired++
	}
	for !p.closed {
		it := p.popLocked()
		if it == nil {
			if p.comingLocked() <= p.waiters.Len() && p.size < p.config.MaxSize && p.maintenance.pause() <= 0 {
				p.buildAheadLocked(ctx)
			}
			p.mu.Unlock()
			return Resource[T]{}, ErrNotAvailable
		}
		loan := it.loan
		p.mu.Unlock()
		why, err := p.inspect(ctx, it)
		if err != nil {
			return Resource[T]{}, err
		}
		if why == sound {
			return Resource[T]{pool: p, item: it, loan: loan}, nil
		}
		p.giveBack(it, loan, why, used)
		p.mu.Lock()
	}
	p.mu.Unlock()
	return Resource[T]{}, ErrClosed
}

// CreateResource creates a resource and adds it to the pool, idle or for the first waiter. It
// returns [ErrNotAvailable] if there are MaxSize resources or MaxIdle idle ones, [ErrClosed], the
// error of Create, or, when ctx ends, an error that wraps ctx.Err(); Create continues in that
// case. Use it to warm up a pool; see also [Config].MinSize.
func (p *Pool[T]) CreateResource(ctx context.Context) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	p.mu.Lock()
	var err error
	switch {
	case p.closed:
		err = ErrClosed
	case p.size >= p.config.MaxSize, len(p.idle) >= p.config.MaxIdle:
		err = ErrNotAvailable
	}
	if err != nil {
		p.mu.Unlock()
		return err
	}
	made := make(chan error, 1)
	p.size++
	p.buildLocked(ctx, func(err error) { made <- err })
	p.mu.Unlock()
	select {
	case err := <-made:
		return err
	case <-ctx.Done():
		return ended(ctx)
	case <-p.ctx.Done():
		return ErrClosed
	}
}

// AcquireAllIdle borrows all idle resources, without checks, least recently used first. Stats.Acquired
// does not count it. Return a resource that was not used with its server by ReleaseUnused. A closed
// pool has none.
func (p *Pool[T]) AcquireAllIdle() []Resource[T] {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Resource[T], 0, len(p.idle))
	p.idle = slices.DeleteFunc(p.idle, func(it *item[T]) bool {
		if p.expiry(it, now) != sound {
			return false // it has expired
		}
		p.lendLocked(it)
		all = append(all, Resource[T]{pool: p, item: it, loan: it.loan})
		return true
	})
	return all
}

// Reset destroys all resources, for example after the server was replaced: idle ones before
// Reset returns, borrowed ones when they are released, and those being created once they are.
// The pool stays open and creates MinSize new ones.
func (p *Pool[T]) Reset() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.dying += len(idle)
	p.resets++
	p.mu.Unlock()
	p.destroyAll(idle, poolReset)
}

// ErrNotSent is wrapped by errors of functions called by [Pool.Do] if the resource was broken
// before anything was sent over it, for example a connection that its server closed while it was
// idle.
var ErrNotSent = errors.New("pool: the resource was broken before anything was sent")

// Do calls f with a resource, and releases it. If f returns an error that wraps [ErrNotSent], the
// resource is discarded, and f is called once more with a newly created resource. Do returns the
// last error of f, or the error of [Pool.Acquire]. If no resource can be created for the second call,
// the error wraps the reason and the error of f.
//
// f must not return [ErrNotSent] if a server may have acted on the request. It may discard or
// hijack the resource, and should discard one that broke after sending. If f panics, the
// resource is discarded.
func (p *Pool[T]) Do(ctx context.Context, f func(Resource[T]) error) error {
	r, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	err = p.call(r, f)
	if !errors.Is(err, ErrNotSent) {
		return err
	}
	it, renewErr := p.replace(ctx, r.item, r.loan, discarded, true)
	switch {
	case renewErr != nil:
		return fmt.Errorf("pool: no fresh resource: %w; the one before: %w", renewErr, err)
	case it == nil:
		return err
	}
	again := Resource[T]{pool: p, item: it, loan: it.loan}
	err = p.call(again, f)
	if errors.Is(err, ErrNotSent) {
		p.giveBack(again.item, again.loan, discarded, used)
	}
	return err
}

// call calls f, and ends the loan unless f returns ErrNotSent.
func (p *Pool[T]) call(r Resource[T], f func(Resource[T]) error) (err error) {
	why := discarded
	defer func() {
		if why != sound || !errors.Is(err, ErrNotSent) {
			p.giveBack(r.item, r.loan, why, used)
		}
	}()
	err = f(r)
	why = sound
	return err
}
