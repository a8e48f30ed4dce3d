package pool

import (
	"slices"
	"time"
)

// Pauses between attempts to reach MinSize while Create fails: gRPC's own for connections,
// which begin with 1 s; a minute at most.
const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// keeper is when the pool has to be looked after. It is guarded by the pool's lock.
type keeper struct {
	timer    *time.Timer
	at       time.Time     // when it fires; zero: it does not
	delay    time.Duration // after the last failure; zero: there was none
	earliest time.Time     // for the next attempt after a failure
}

// failed begins a pause, unless the failure is that of an attempt before the last pause.
func (k *keeper) failed() {
	now := time.Now()
	if now.Before(k.earliest) {
		return
	}
	k.delay = min(max(2*k.delay, firstPause), longestPause)
	k.earliest = now.Add(k.delay)
}

func (k *keeper) succeeded() { k.delay, k.earliest = 0, time.Time{} }

// pause returns how long to wait for the next attempt.
func (k *keeper) pause() time.Duration {
	if k.delay == 0 {
		return 0
	}
	return time.Until(k.earliest)
}

func (k *keeper) stop() {
	if k.timer != nil {
		k.timer.Stop()
	}
}

// wake has the pool looked after when d has passed, if that is not before.
func (p *Pool[T]) wake(d time.Duration) {
	k := &p.keeper
	at := time.Now().Add(d)
	if !k.at.IsZero() && !at.Before(k.at) {
		return
	}
	k.at = at
	if k.timer == nil {
		k.timer = time.AfterFunc(d, p.keep)
	} else {
		k.timer.Reset(d)
	}
}

// watch has the pool looked after when a resource that is idle now expires.
func (p *Pool[T]) watch(it *item[T]) {
	expires := it.expires
	if limit := p.config.MaxIdleTime; limit > 0 && p.size-p.dying > p.config.MinSize {
		if at := it.used.Add(limit); expires.IsZero() || at.Before(expires) {
			expires = at
		}
	}
	if !expires.IsZero() && (p.keeper.at.IsZero() || expires.Before(p.keeper.at)) {
		p.wake(time.Until(expires))
	}
}

// keep looks after the pool: it destroys what has expired, makes what is missing, and
// returns until the next time.
func (p *Pool[T]) keep() {
	p.mu.Lock()
	p.keeper.at = time.Time{}
	old, unused := p.expired(time.Now())
	for _, it := range p.idle {
		p.watch(it)
	}
	p.refill()
	p.mu.Unlock()
	for _, it := range old {
		p.destroy(it, tooOld)
	}
	for _, it := range unused {
		p.destroy(it, idleTooLong)
	}
}

// expired takes out of the idle resources those that are too old, and those that were not
// used for too long and are not needed for MinSize. These are the first ones: the resource
// that was used last is borrowed first.
func (p *Pool[T]) expired(now time.Time) (old, unused []*item[T]) {
	p.idle = slices.DeleteFunc(p.idle, func(it *item[T]) bool {
		switch {
		case !it.expires.IsZero() && !now.Before(it.expires):
			old = append(old, it)
		case p.config.MaxIdleTime > 0 && now.Sub(it.used) >= p.config.MaxIdleTime && p.size-p.dying > p.config.MinSize:
			unused = append(unused, it)
		default:
			return false
		}
		p.dying++
		return true
	})
	return old, unused
}
