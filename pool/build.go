package pool

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// buildLocked creates a resource, for which there is capacity, in a separate goroutine.
// Create gets the values of ctx. The resource goes to the first waiter; done, which receives the error
// or nil, runs under the lock.
func (p *Pool[T]) buildLocked(ctx context.Context, done func(error)) {
	p.building++
	resets := p.resets
	go func() {
		it, err := (*item[T])(nil), errNotReturned
		defer func() { p.built(it, err, done) }()
		it, err = p.create(ctx, resets)
	}()
}

// errNotReturned is the error of a Create that ends its goroutine, as the FailNow of a test does.
var errNotReturned = errors.New("pool: Config.Create has not returned: it ended its goroutine")

// built processes the result of Create.
func (p *Pool[T]) built(it *item[T], err error, done func(error)) {
	p.mu.Lock()
	p.building--
	if err != nil {
		p.size--
		p.counts.CreateErrors++
		done(err)
		p.refillLocked()
		p.mu.Unlock()
		return
	}
	p.counts.Created++
	p.maintenance.succeeded()
	why := p.offerLocked(it, true)
	if why != sound {
		p.dying++
	}
	if why == poolClosed {
		err = ErrClosed
	}
	done(err)
	p.mu.Unlock()
	if why != sound {
		p.destroy(it, why)
	}
}

// buildForLocked creates a resource for a waiter. The waiter gets the error, unless it was served
// before.
func (p *Pool[T]) buildForLocked(w *waiter[T]) {
	w.creating = true
	p.buildLocked(w.ctx, func(err error) {
		w.creating = false
		if err != nil && w.place != nil {
			p.removeWaiterLocked(w)
			w.given <- result[T]{err: err}
		}
	})
}

// buildAheadLocked creates a resource without a waiter. After a failure the next attempt is delayed.
func (p *Pool[T]) buildAheadLocked(ctx context.Context) {
	p.size++
	p.buildLocked(ctx, func(err error) {
		if err != nil {
			p.maintenance.failed()
		}
	})
}

// comingLocked returns how many resources will soon be available.
func (p *Pool[T]) comingLocked() int { return p.building + p.checking }

// create calls Create with the values of ctx, and the cancellation of the pool's context.
func (p *Pool[T]) create(ctx context.Context, resets int) (*item[T], error) {
	ctx, cancel := p.detached(ctx, p.config.CreateTimeout)
	defer cancel()
	value, err := p.config.Create(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	it := &item[T]{value: value, created: now, used: now, proven: now, fresh: true, resets: resets}
	if life := p.config.MaxLifetime; life > 0 {
		it.expires = now.Add(life)
		if jitter := p.config.LifetimeJitter; jitter > 0 {
			it.expires = it.expires.Add(rand.N(jitter)) // separately, because the sum of the durations may overflow
		}
	}
	return it, nil
}

// detached returns a context with the values of ctx that ends with the pool or a timeout.
func (p *Pool[T]) detached(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	stop := context.AfterFunc(p.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// refillLocked creates resources while there is capacity: for waiters without a resource being created,
// and up to MinSize. It is called whenever there may be capacity.
func (p *Pool[T]) refillLocked() {
	if p.closed {
		return
	}
	for place := p.waiters.Front(); p.building < p.waiters.Len() && p.size < p.config.MaxSize+p.config.MaxOverflow; place = place.Next() {
		if w := place.Value.(*waiter[T]); !w.creating {
			p.size++
			p.buildForLocked(w)
		}
	}
	if p.sparesLocked() >= 0 {
		return
	}
	if wait := p.maintenance.pause(); wait > 0 {
		p.scheduleMaintenanceLocked(wait)
		return
	}
	for p.sparesLocked() < 0 && p.size < p.config.MaxSize {
		p.buildAheadLocked(p.ctx)
	}
}

// replace destroys a borrowed resource and returns another one: one that is idle now, unless anew
// is set, or a new one. The caller takes precedence over all waiters, because it has been served
// before. replace returns nil if the loan has ended.
func (p *Pool[T]) replace(ctx context.Context, it *item[T], loan uint64, why fault, anew bool) (*item[T], error) {
	p.mu.Lock()
	if it.loan != loan {
		p.mu.Unlock()
		return nil, nil
	}
	it.loan = 0
	p.dying++
	p.mu.Unlock()
	p.remove(it, why, true)
	p.mu.Lock()
	var other *item[T]
	if !anew {
		other = p.popLocked()
	}
	var err error
	switch {
	case p.closed:
		err = ErrClosed
	case other == nil && ctx.Err() != nil:
		p.counts.Canceled++
		err = ended(ctx)
	}
	if other != nil || err != nil {
		p.size--
		p.refillLocked()
		p.mu.Unlock()
		return other, err
	}
	w := p.newWaiterLocked(ctx)
	w.anew = anew
	w.place = p.waiters.PushFront(w)
	p.buildForLocked(w)
	p.mu.Unlock()
	return p.await(w)
}

// destroyAll destroys resources that are counted among the dying, at the same time: Destroy may take long.
func (p *Pool[T]) destroyAll(items []*item[T], why fault) {
	var all sync.WaitGroup
	for _, it := range items {
		all.Go(func() { p.destroy(it, why) })
	}
	all.Wait()
}

// destroy destroys a resource that is counted among the dying, and frees its capacity.
func (p *Pool[T]) destroy(it *item[T], why fault) { p.remove(it, why, false) }

// remove destroys a resource that is counted among the dying, and keeps its capacity for another if keep
// is set. It is no longer counted afterwards, even if Destroy panics; a panic frees its capacity.
func (p *Pool[T]) remove(it *item[T], why fault, keep bool) {
	kept := false
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dying--
		p.destroyed[why]++
		if !kept {
			p.size--
			p.refillLocked()
		}
	}()
	if p.config.Destroy != nil {
		p.config.Destroy(it.value)
	}
	kept = keep
}
