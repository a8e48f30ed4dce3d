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
