package cache

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/pause"
)

const (
	// firstPause is the time between progress requests while a read waits: a member that is a
	// little behind the floor has applied it by then.
	firstPause = 5 * time.Millisecond
	firstTries = 10
	// maxPause is reached after about half a second, slowPause after a second: a member that is
	// that far behind is not asked 200 times a second by each of its clients.
	maxPause  = 100 * time.Millisecond
	maxTries  = 20
	slowPause = time.Second

	// stuckAfter is how long a stream may leave progress requests unanswered before it is given
	// up. It doubles up to maxStuck.
	stuckAfter = 5 * time.Second
	maxStuck   = time.Minute
)

// chaser asks for progress until every view has reached its target.
type chaser struct {
	c        *Cache
	wake     chan struct{} // holds a value when a view may wait, for what it may be asking for already
	advanced chan struct{} // holds a value when a view has reached what was asked for, or waits for more

	// Of the goroutine.
	reopened time.Time // when the present stream was given its time
	stuck    time.Duration
}

// chase makes a view soon reach a revision that the store has.
func (c *Cache) chase(v *view, rev int64) {
	v.mu.Lock()
	s := v.snap.Load()
	if s == nil || s.rev >= rev {
		v.mu.Unlock()
		return
	}
	if s.rev >= v.target {
		v.moved = time.Now()
		c.chaser.notify() // it may be slow by then, for a revision that the store may not have
	}
	v.target = max(v.target, rev)
	v.mu.Unlock()
}

// chaseFuture makes a view soon reach a revision, if the store has it, until stop is called.
func (c *Cache) chaseFuture(v *view, rev int64) (stop func()) {
	v.mu.Lock()
	v.future = max(v.future, rev)
	v.waiters++
	v.mu.Unlock()
	pause.Signal(c.chaser.wake)
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.waiters--; v.waiters == 0 {
			v.future = 0
		}
	}
}

func (ch *chaser) notify() { pause.Signal(ch.advanced) }

func (ch *chaser) run() {
	for tries := 0; ch.c.ctx.Err() == nil; {
		since, ok := ch.waiting()
		if !ok {
			tries = 0
			select {
			case <-ch.wake:
			case <-ch.advanced:
			case <-ch.c.ctx.Done():
			}
			continue
		}
		if since.After(ch.reopened) {
			ch.stuck = stuckAfter
		}
		if min(time.Since(since), time.Since(ch.reopened)) > ch.stuck {
			ch.c.reopen()
			ch.reopened, ch.stuck = time.Now(), min(2*ch.stuck, maxStuck)
		}
		ch.c.stats.progress.Add(1)
		_ = ch.c.watcher.RequestProgress(ch.c.streamContext(ch.c.ctx)) // fails only once the cache or the client is closed
		tries++
		select {
		case <-time.After(pauseAfter(tries)):
		case <-ch.advanced:
			tries = 0
		case <-ch.c.ctx.Done():
		}
	}
}

// waiting returns since when the view that has waited longest has not moved, before it is asked for
// all that wait. A stream is not stuck because the store does not reach a future revision.
func (ch *chaser) waiting() (since time.Time, ok bool) {
	now := time.Now()
	for _, v := range ch.c.views {
		v.mu.Lock()
		wanted := max(v.target, v.future)
		if s := v.snap.Load(); s != nil && s.rev < wanted && v.proven.Load() {
			v.asked = wanted
			moved := now
			if s.rev < v.target {
				v.asked, moved = v.target, v.moved
			}
			if !ok || moved.Before(since) {
				since, ok = moved, true
			}
		}
		v.mu.Unlock()
	}
	return since, ok
}

// pauseAfter returns how long to wait after so many requests, within 10 %.
func pauseAfter(tries int) time.Duration {
	d := firstPause
	switch {
	case tries > maxTries:
		d = slowPause
	case tries > firstTries:
		d = min(firstPause<<(tries-firstTries), maxPause)
	}
	return d*9/10 + rand.N(d/5)
}

// probe proves freshness now and then if reads do not, and that all prefixes may be read.
func (c *Cache) probe() {
	for {
		interval := c.cfg.ProbeInterval*9/10 + rand.N(c.cfg.ProbeInterval/5)
		if pause.For(c.ctx, interval) != nil {
			return
		}
		loaded := slices.DeleteFunc(slices.Clone(c.views), func(v *view) bool { return v.snap.Load() == nil })
		for part := range slices.Chunk(loaded, maxTxnOps) {
			c.checkPermissions(part)
		}
		if f := c.Freshness(); f.Age >= 0 && f.Age < interval/2 {
			continue
		}
		r := c.floors.join()
		if r == nil || r.wait(c.ctx) != nil {
			continue
		}
		for _, v := range c.views {
			if v.proven.Load() {
				c.chase(v, r.header.GetRevision())
				continue
			}
			// The watch may have come from a server whose progress proves nothing to another one. Its
			// answer shows that.
			_ = c.watcher.RequestProgress(c.streamContext(c.ctx)) // fails only once the cache or the client is closed
		}
	}
}
