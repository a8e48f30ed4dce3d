package pool

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// build makes a resource, for which there is room, in a goroutine of its own. It is called
// with the lock held. If w is not nil, the resource is made for that waiter, who gets the
// error if there is one. The resource itself is for whoever waited longest.
func (p *Pool[T]) build(w *waiter[T]) {
	p.building++
	ctx := p.ctx
	if w != nil {
		ctx = w.ctx
	}
	go func() {
		it, err := (*item[T])(nil), errNotReturned
		defer func() { p.built(w, it, err) }()
		it, err = p.create(ctx)
	}()
}

// errNotReturned is the error of a Create that ends its goroutine, as the FailNow of a test
// does.
var errNotReturned = errors.New("pool: Config.Create has not returned: it ended its goroutine")

// built takes what Create has made, or its error.
func (p *Pool[T]) built(w *waiter[T], it *item[T], err error) {
	if err != nil {
		p.failed(w, err)
		return
	}
	p.mu.Lock()
	p.building--
	p.counters.created++
	p.keeper.succeeded()
	why := p.offer(it)
	if why != sound {
		p.dying++
	}
	p.mu.Unlock()
	if why != sound {
		p.destroy(it, why)
	}
}

// create calls Create with the values of ctx, and the end of the pool's context.
func (p *Pool[T]) create(ctx context.Context) (*item[T], error) {
	ctx, cancel := p.detached(ctx, p.config.CreateTimeout)
	defer cancel()
	value, err := p.config.Create(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	it := &item[T]{value: value, used: now, proven: now, fresh: true}
	if life := p.config.MaxLifetime; life > 0 {
		it.expires = now.Add(life)
		if jitter := p.config.LifetimeJitter; jitter > 0 {
			it.expires = it.expires.Add(rand.N(jitter)) // the sum of the durations may be too long for one
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

// failed gives the error of Create to the waiter that the resource was to be for, if it
// still waits. If there was none, MinSize is tried for again later.
func (p *Pool[T]) failed(w *waiter[T], err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.building--
	p.size--
	p.counters.createErrors++
	switch {
	case w == nil:
		p.keeper.failed()
	case w.place != nil:
		p.served(w)
		w.given <- result[T]{err: err}
	}
	p.refill()
}

// refill makes resources where there is room: for those that wait and have none coming, and
// up to MinSize. It is called with the lock held whenever there may be room.
func (p *Pool[T]) refill() {
	if p.closed {
		return
	}
	for p.building < p.waiters.Len() && p.size < p.config.MaxSize {
		p.size++
		p.build(p.waiters.Front().Value.(*waiter[T]))
	}
	if p.size-p.dying >= p.config.MinSize {
		return
	}
	if wait := p.keeper.pause(); wait > 0 {
		p.wake(wait)
		return
	}
	for p.size-p.dying < p.config.MinSize && p.size < p.config.MaxSize {
		p.size++
		p.build(nil)
	}
}

// replace destroys a resource that was borrowed, and returns another one for it: one that
// is idle by now, or one that is made in its place. Of those that wait, the caller goes
// first: it had its turn.
func (p *Pool[T]) replace(ctx context.Context, it *item[T], why fault) (*item[T], error) {
	p.mu.Lock()
	it.lease = 0
	p.dying++
	p.mu.Unlock()
	destroyed := false
	defer func() {
		if !destroyed { // Destroy panics
			p.gone(why)
		}
	}()
	if p.config.Destroy != nil {
		p.config.Destroy(it.value)
	}
	destroyed = true

	p.mu.Lock()
	p.dying--
	p.counters.destroyed[why]++
	other, err := p.pop(), error(nil)
	switch {
	case p.closed:
		err = ErrClosed
	case other == nil && ctx.Err() != nil:
		p.counters.canceled++
		err = ended(ctx)
	}
	if other != nil || err != nil {
		p.size--
		p.refill()
		p.mu.Unlock()
		return other, err
	}
	w := p.newWaiter(ctx)
	w.place = p.waiters.PushFront(w)
	p.build(w)
	p.mu.Unlock()
	return p.await(w)
}

// destroy gives up a resource that is counted among the dying. It counts no more
// even if Destroy panics.
func (p *Pool[T]) destroy(it *item[T], why fault) {
	defer p.gone(why)
	if p.config.Destroy != nil {
		p.config.Destroy(it.value)
	}
}

func (p *Pool[T]) gone(why fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dying--
	p.size--
	p.counters.destroyed[why]++
	p.refill()
}
