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

// progressRequester requests progress until every view has reached its target.
type progressRequester struct {
	c        *Cache
	wake     chan struct{} // holds a value when a view begins to wait for a future revision; it does not shorten a pause
	advanced chan struct{} // holds a value when a view has reached what was asked for, or waits for more

	// Of the goroutine.
	reopened time.Time     // when the stream was last given up
	stuck    time.Duration // how long the present one may leave requests unanswered
}

// advanceTo makes a view soon reach a revision that the store has.
func (c *Cache) advanceTo(v *view, rev int64) {
	v.mu.Lock()
	s := v.snap.Load()
	if s == nil || s.rev >= rev {
		v.mu.Unlock()
		return
	}
	if s.rev >= v.target {
		v.moved = time.Now()
		c.requester.notify() // its pauses may be long by then, because of a revision that the store may not have
	}
	v.target = max(v.target, rev)
	v.mu.Unlock()
}

// advanceToFuture makes a view soon reach a revision, if the store has it, until stop is called.
func (c *Cache) advanceToFuture(v *view, rev int64) (stop func()) {
	v.mu.Lock()
	v.future = max(v.future, rev)
	v.waiters++
	v.mu.Unlock()
	pause.Signal(c.requester.wake)
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.waiters--; v.waiters == 0 {
			v.future = 0
		}
	}
}

func (pr *progressRequester) notify() { pause.Signal(pr.advanced) }

func (pr *progressRequester) run() {
	for tries := 0; pr.c.ctx.Err() == nil; {
		since, ok := pr.waiting()
		if !ok {
			tries = 0
			select {
			case <-pr.wake:
			case <-pr.advanced:
			case <-pr.c.ctx.Done():
			}
			continue
		}
		if since.After(pr.reopened) {
			pr.stuck = stuckAfter
		}
		if min(time.Since(since), time.Since(pr.reopened)) > pr.stuck {
			pr.c.reopen()
			pr.reopened, pr.stuck = time.Now(), min(2*pr.stuck, maxStuck)
		}
		pr.c.stats.progress.Add(1)
		_ = pr.c.watcher.RequestProgress(pr.c.streamContext(pr.c.ctx)) // fails only once the cache or the client is closed
		tries++
		select {
		case <-time.After(pauseAfter(tries)):
		case <-pr.advanced:
			tries = 0
		case <-pr.c.ctx.Done():
		}
	}
}

// waiting returns since when the view that has waited longest has not advanced. It records in each view
// which revision the next request is for. A stream is not stuck because the store does not reach a future revision.
func (pr *progressRequester) waiting() (since time.Time, ok bool) {
	now := time.Now()
	for _, v := range pr.c.views {
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
				c.advanceTo(v, r.header.GetRevision())
				continue
			}
			// The watch may have come from a server whose progress proves nothing to another one. Its
			// answer shows that.
			_ = c.watcher.RequestProgress(c.streamContext(c.ctx)) // fails only once the cache or the client is closed
		}
	}
}
