package pool

import "context"

// fault is why a resource is destroyed.
type fault uint8

const (
	sound fault = iota // no fault
	checkFailed
	tooOld
	idleTooLong
	tooManyIdle
	overflowed
	discarded
	poolReset
	poolClosed

	faults = iota
)

// inspect returns what is wrong with a resource that is about to be borrowed. If ctx ends
// before Check has returned, the loan ends with the error of ctx.
func (p *Pool[T]) inspect(ctx context.Context, it *item[T]) (fault, error) {
	if it.fresh {
		return sound, nil
	}
	now := p.now(it)
	if why := p.expiry(it, now); why != sound {
		return why, nil
	}
	if p.config.Check == nil || (p.config.CheckAfter > 0 && now.Sub(it.proven) < p.config.CheckAfter) {
		return sound, nil
	}
	return p.check(ctx, it)
}

// answer is the result of Check, or its panic.
type answer struct {
	why      fault
	panicked any
}

// check runs Check. If ctx ends meanwhile, the caller returns; Check continues, and its result
// applies to the resource.
func (p *Pool[T]) check(ctx context.Context, it *item[T]) (fault, error) {
	answers := make(chan answer) // not buffered: the caller receives the answer only before ctx ends
	loan := it.loan
	go func() {
		a := answer{why: checkFailed} // if Check ends its goroutine
		defer func() {
			a.panicked = recover()
			select {
			case answers <- a:
			case <-ctx.Done():
				p.checked(it, loan, a)
			}
		}()
		a.why = p.runCheck(ctx, it)
	}()
	select {
	case a := <-answers:
		if a.panicked != nil {
			p.giveBack(it, loan, checkFailed, checked)
			panic(a.panicked)
		}
		return a.why, nil
	case <-ctx.Done():
		p.mu.Lock()
		p.counts.Canceled++
		p.mu.Unlock()
		return sound, ended(ctx)
	}
}

// runCheck calls Check with the values of ctx and the cancellation of the pool's context.
func (p *Pool[T]) runCheck(ctx context.Context, it *item[T]) fault {
	ctx, cancel := p.detached(ctx, p.config.CheckTimeout)
	defer cancel()
	if p.config.Check(ctx, it.value) != nil {
		return checkFailed
	}
	return sound
}

// checked ends a loan that was only for a check.
func (p *Pool[T]) checked(it *item[T], loan uint64, a answer) {
	p.giveBack(it, loan, a.why, checked)
	if a.panicked != nil {
		panic(a.panicked) // the caller has returned
	}
}
