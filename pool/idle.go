package pool

import (
	"context"
	"slices"
	"time"
)

// TryAcquire borrows a resource if one is idle, and returns [ErrNotAvailable] otherwise. It waits
// for nothing but Check, and that until ctx ends. If none is idle, none is coming and there are
// fewer than MaxSize, one is made in the background, but not while Create fails, see
// [Config].MinSize. Its other errors are those of [Pool.Acquire].
func (p *Pool[T]) TryAcquire(ctx context.Context) (Resource[T], error) {
	if ctx.Err() != nil {
		return Resource[T]{}, ended(ctx)
	}
	p.mu.Lock()
	if !p.closed {
		p.counters.acquired++
	}
	for !p.closed {
		it := p.pop()
		if it == nil {
			if p.coming() <= p.waiters.Len() && p.size < p.config.MaxSize && p.maintenance.pause() <= 0 {
				p.buildAhead(ctx)
			}
			p.mu.Unlock()
			return Resource[T]{}, ErrNotAvailable
		}
		lease := it.lease
		p.mu.Unlock()
		why, err := p.inspect(ctx, it)
		if err != nil {
			return Resource[T]{}, err
		}
		if why == sound {
			return Resource[T]{pool: p, item: it, lease: lease}, nil
		}
		p.giveBack(it, lease, why, borrowed)
		p.mu.Lock()
	}
	p.mu.Unlock()
	return Resource[T]{}, ErrClosed
}

// CreateResource makes a resource that is idle then, or serves who waits. It returns
// [ErrNotAvailable] if there are MaxSize resources or MaxIdle idle ones, [ErrClosed], the error of
// Create, and when ctx ends, an error that errors.Is recognises as that of ctx; Create goes on
// then. It is for pools that are to be warm at a certain time; see also [Config].MinSize.
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
	p.build(ctx, func(err error) { made <- err })
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

// AcquireAllIdle borrows all resources that are idle, unchecked, the one that was used first
// first. It is for what is to be done with each of them, and not counted in Stats. A resource to
// which nothing was done that its server notices should be given back with ReleaseUnused. On a
// pool that is closed there are none.
func (p *Pool[T]) AcquireAllIdle() []Resource[T] {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Resource[T], 0, len(p.idle))
	p.idle = slices.DeleteFunc(p.idle, func(it *item[T]) bool {
		if p.expiry(it, now) != sound {
			return false // it is about to be destroyed
		}
		p.lend(it)
		all = append(all, Resource[T]{pool: p, item: it, lease: it.lease})
		return true
	})
	return all
}

// Reset destroys all resources, as when the server has been exchanged: idle ones before Reset
// returns, borrowed ones when they are released, and those that are being made when they have
// been. The pool stays open, and makes MinSize new ones.
func (p *Pool[T]) Reset() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.dying += len(idle)
	p.resets++
	p.mu.Unlock()
	p.destroyAll(idle, poolReset)
}
