package pool

import (
	"context"
	"time"
)

// fault is why a resource is destroyed.
type fault uint8

const (
	sound fault = iota // it is not
	checkFailed
	tooOld
	idleTooLong
	tooManyIdle
	discarded
	poolClosed

	faults = iota
)

// inspect returns what is wrong with a resource that is about to be borrowed.
func (p *Pool[T]) inspect(ctx context.Context, it *item[T]) fault {
	if it.fresh {
		return sound
	}
	var now time.Time
	if p.timed || !it.expires.IsZero() {
		now = time.Now()
	}
	if !it.expires.IsZero() && !now.Before(it.expires) {
		return tooOld
	}
	if p.config.Check == nil || (p.config.CheckAfter > 0 && now.Sub(it.used) < p.config.CheckAfter) {
		return sound
	}
	checked := false
	defer func() {
		if !checked { // Check panics
			p.giveBack(it, it.lease, checkFailed)
		}
	}()
	err := p.config.Check(ctx, it.value)
	checked = true
	if err != nil {
		return checkFailed
	}
	return sound
}
