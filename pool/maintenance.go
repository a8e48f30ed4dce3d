package pool

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// Pauses between attempts to reach MinSize while Create fails: as gRPC's between connection
// attempts from 1 s on, but at most a minute. Each is shortened at random by at most half.
const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// maintenance schedules maintain. It is guarded by the pool's lock.
type maintenance struct {
	timer    *time.Timer
	at       time.Time     // when the timer fires; zero: never
	delay    time.Duration // after the last failure; zero: there was none
	earliest time.Time     // for the next attempt after a failure
	after    time.Time     // for the next attempt after one whose resource has soon expired
	checks   bool          // a goroutine checks idle resources
}

// failed starts a pause, unless the failed attempt began before the last pause.
func (k *maintenance) failed() {
	now := time.Now()
	if now.Before(k.earliest) {
		return
	}
	k.delay = min(max(2*k.delay, firstPause), longestPause)
	k.earliest = now.Add(spread(k.delay))
}

func (k *maintenance) succeeded() { k.delay, k.earliest = 0, time.Time{} }

// pause returns how long to wait for the next attempt.
func (k *maintenance) pause() time.Duration {
	return max(time.Until(k.earliest), time.Until(k.after))
}

func (k *maintenance) stop() {
	if k.timer != nil {
		k.timer.Stop()
	}
}

// scheduleMaintenanceLocked schedules maintain in d, unless it is scheduled earlier.
func (p *Pool[T]) scheduleMaintenanceLocked(d time.Duration) {
	k := &p.maintenance
	at := time.Now().Add(d)
	if !k.at.IsZero() && !at.Before(k.at) {
		return
	}
	k.at = at
	if k.timer == nil {
		k.timer = time.AfterFunc(d, p.maintain)
	} else {
		k.timer.Reset(d)
	}
}

// spread returns a random duration between d/2 and d. It separates pools that started together, in
// this process or in others.
func spread(d time.Duration) time.Duration {
	if d < 2 {
		return d
	}
	return d - rand.N(d/2)
}

// setIdleTimesLocked sets when a resource that becomes idle now is to be checked, and to be replaced if
// MinSize keeps it.
func (p *Pool[T]) setIdleTimesLocked(it *item[T]) {
	if interval := p.config.CheckInterval; interval > 0 {
		it.check = it.proven.Add(spread(interval))
	}
	if limit := p.config.MaxIdleTime; limit > 0 && p.config.MinSize > 0 {
		it.renew = it.used.Add(spread(limit))
	}
}

// scheduleItemLocked schedules maintain for the expiry or the check of an idle resource.
func (p *Pool[T]) scheduleItemLocked(it *item[T]) {
	at := it.expires
	if limit := p.config.MaxIdleTime; limit > 0 {
		at = earlier(at, it.used.Add(limit))
		if p.sparesLocked() <= 0 {
			at = earlier(at, it.renew)
		}
	}
	if !p.maintenance.checks {
		at = earlier(at, it.check)
	}
	if !at.IsZero() && (p.maintenance.at.IsZero() || at.Before(p.maintenance.at)) {
		p.scheduleMaintenanceLocked(time.Until(at))
	}
}

// sparesLocked returns the number of resources beyond MinSize, negative if some are missing.
func (p *Pool[T]) sparesLocked() int { return p.size - p.dying - p.config.MinSize }

// earlier returns the earlier of two times; zero means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// maintain destroys expired resources, creates missing ones, starts due checks, and schedules its
// next call.
func (p *Pool[T]) maintain() {
	p.mu.Lock()
	p.maintenance.at = time.Time{}
	gone := p.removeExpiredLocked(time.Now())
	for _, it := range p.idle {
		p.scheduleItemLocked(it)
	}
	p.refillLocked()
	p.mu.Unlock()
	for _, d := range gone {
		go p.destroy(d.item, d.why) // Destroy may take long
	}
	p.checkIdle()
}

// checkIdle checks the idle resources that are due, one after the other, the longest due first, unless
// another goroutine does.
func (p *Pool[T]) checkIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.config.CheckInterval == 0 || p.maintenance.checks {
		return
	}
	p.maintenance.checks = true
	defer func() {
		p.maintenance.checks = false
		for _, it := range p.idle {
			p.scheduleItemLocked(it)
		}
	}()
	for len(p.idle) > 0 {
		it := slices.MinFunc(p.idle, func(a, b *item[T]) int { return a.check.Compare(b.check) })
		if time.Now().Before(it.check) {
			return
		}
		p.idle = slices.DeleteFunc(p.idle, func(other *item[T]) bool { return other == it })
		p.lendLocked(it)
		p.checkNowLocked(it)
	}
}

// checkNowLocked checks an idle resource. It releases the lock meanwhile.
func (p *Pool[T]) checkNowLocked(it *item[T]) {
	why, loan := checkFailed, it.loan
	p.checking++
	p.mu.Unlock()
	defer p.mu.Lock()
	defer func() {
		p.mu.Lock()
		p.checking--
		p.mu.Unlock()
		p.giveBack(it, loan, why, checked)
	}()
	why = p.runCheck(p.ctx, it)
}

// removal is a resource that is to be destroyed.
type removal[T any] struct {
	item *item[T]
	why  fault
}

// removeExpiredLocked removes expired resources from the idle ones. If MinSize keeps some, it keeps the most
// recently used ones, which are lent first.
func (p *Pool[T]) removeExpiredLocked(now time.Time) (gone []removal[T]) {
	p.idle = slices.DeleteFunc(p.idle, func(it *item[T]) bool {
		why := p.expiry(it, now)
		if why == sound && p.sparesLocked() <= 0 && !it.renew.IsZero() && !now.Before(it.renew) {
			why = idleTooLong
		}
		if why == sound {
			return false
		}
		if now.Sub(it.created) < firstPause {
			p.maintenance.after = now.Add(spread(firstPause)) // or each pool with such lifetimes creates resources without end
		}
		gone = append(gone, removal[T]{it, why})
		p.dying++
		return true
	})
	return gone
}

// now returns the time if the age of the resource matters, else the zero time.
func (p *Pool[T]) now(it *item[T]) time.Time {
	if p.timed || !it.expires.IsZero() {
		return time.Now()
	}
	return time.Time{}
}

// expiry returns why a resource must not be lent because of its age, sound if it may be.
func (p *Pool[T]) expiry(it *item[T], now time.Time) fault {
	switch limit := p.config.MaxIdleTime; {
	case !it.expires.IsZero() && !now.Before(it.expires):
		return tooOld
	case limit > 0 && now.Sub(it.used) >= limit:
		return idleTooLong
	default:
		return sound
	}
}

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
				p.giveBack(it, loan, a.why, checked) // it was lent for the check alone
				if a.panicked != nil {
					panic(a.panicked) // the caller has returned
				}
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
