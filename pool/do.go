package pool

import (
	"context"
	"errors"
	"fmt"
)

// ErrNotSent is wrapped by errors of functions called by [Pool.Do] if the resource was broken
// before anything was sent over it, for example a connection that its server closed while it was
// idle.
var ErrNotSent = errors.New("pool: the resource was broken before anything was sent")

// Do calls f with a resource, and releases it. If f returns an error that wraps [ErrNotSent], the
// resource is discarded, and f is called once more with a newly created resource. Do returns the
// last error of f, or the error of [Pool.Acquire].
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
	again, renewErr := p.renew(ctx, r)
	switch {
	case renewErr != nil:
		return fmt.Errorf("pool: no fresh resource: %w; the one before: %w", renewErr, err)
	case again.item == nil:
		return err
	}
	err = p.call(again, f)
	if errors.Is(err, ErrNotSent) {
		p.giveBack(again.item, again.lease, discarded, borrowed)
	}
	return err
}

// call calls f, and ends the loan unless f returns ErrNotSent.
func (p *Pool[T]) call(r Resource[T], f func(Resource[T]) error) (err error) {
	why := discarded
	defer func() {
		if why != sound || !errors.Is(err, ErrNotSent) {
			p.giveBack(r.item, r.lease, why, borrowed)
		}
	}()
	err = f(r)
	why = sound
	return err
}

// renew destroys a borrowed resource and creates another for the caller alone, unless the loan has
// ended.
func (p *Pool[T]) renew(ctx context.Context, r Resource[T]) (Resource[T], error) {
	p.mu.Lock()
	if r.item.lease != r.lease {
		p.mu.Unlock()
		return Resource[T]{}, nil
	}
	r.item.lease = 0
	p.dying++
	p.mu.Unlock()
	p.removeItem(r.item, discarded)

	p.mu.Lock()
	if p.closed || ctx.Err() != nil {
		p.size--
		p.refillLocked()
		p.mu.Unlock()
		if ctx.Err() != nil {
			return Resource[T]{}, ended(ctx)
		}
		return Resource[T]{}, ErrClosed
	}
	p.building++
	p.reserved++
	resets := p.resets
	p.mu.Unlock()
	made := make(chan result[T]) // not buffered, as in check
	go func() {
		got := result[T]{err: errNotReturned}
		defer func() { p.handOver(ctx, got, made) }()
		got.item, got.err = p.create(ctx, resets)
	}()
	select {
	case got := <-made:
		if got.err != nil {
			return Resource[T]{}, got.err
		}
		return Resource[T]{pool: p, item: got.item, lease: got.item.lease}, nil
	case <-ctx.Done():
		return Resource[T]{}, ended(ctx)
	case <-p.ctx.Done():
		return Resource[T]{}, ErrClosed
	}
}

// handOver passes a resource created for one caller to it, or to the pool if the caller has left.
func (p *Pool[T]) handOver(ctx context.Context, got result[T], caller chan<- result[T]) {
	p.mu.Lock()
	p.building--
	p.reserved--
	var lease uint64
	if got.err != nil {
		p.size--
		p.counts.CreateErrors++
		p.refillLocked()
	} else {
		p.counts.Created++
		p.maintenance.succeeded()
		p.lend(got.item)
		lease = got.item.lease
	}
	p.mu.Unlock()
	select {
	case caller <- got:
		return
	case <-ctx.Done():
	case <-p.ctx.Done():
	}
	if got.err == nil {
		p.giveBack(got.item, lease, sound, passed)
	}
}
