package balancer

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/health"
)

// An endpoint that loses packets answers some calls as others do, and some after TCP has repeated
// them. It is Slow when that is so of many of its latest calls, and of none of them elsewhere.

const (
	// lateWindow is half of the time over which late calls are counted.
	lateWindow = 2500 * time.Millisecond
	// One call in lateShare must be late, and one in timelyShare must not: an endpoint that is far away is
	// never as fast as the others.
	lateShare, timelyShare = 4, 8
	// lateTimes is at how many times calls must have been late: one pause makes many calls late.
	lateTimes = 4
)

// lateCalls counts the late calls of an endpoint, now and in the window before.
type lateCalls struct{ window atomic.Pointer[lateCount] }

type lateCount struct {
	began            health.Moment
	before           *lateCount
	all, late, times atomic.Int64
	latest           health.Stamp // when the latest of times was
}

// note records a call that was picked at start, and reports whether many calls are late, and some are not.
func (l *lateCalls) note(late bool, start, now time.Time) bool {
	w := l.window.Load()
	if w == nil || now.Sub(w.began.Time()) >= lateWindow {
		next := &lateCount{began: health.MomentOf(now)}
		if w != nil && now.Sub(w.began.Time()) < 2*lateWindow {
			next.before = &lateCount{}
			next.before.add(w)
			next.latest.Set(w.latest.Time())
		}
		if !l.window.CompareAndSwap(w, next) {
			next = l.window.Load()
		}
		w = next
	}
	w.all.Add(1)
	if !late {
		return false
	}
	w.late.Add(1)
	if !w.latest.After(start) { // it is late for a reason of its own
		w.latest.Set(now)
		w.times.Add(1)
	}
	var sum lateCount
	sum.add(w)
	if w.before != nil {
		sum.add(w.before)
	}
	many := sum.late.Load()*lateShare >= sum.all.Load() && (sum.all.Load()-sum.late.Load())*timelyShare >= sum.all.Load()
	return many && sum.times.Load() >= lateTimes
}

func (c *lateCount) add(o *lateCount) {
	c.all.Add(o.all.Load())
	c.late.Add(o.late.Load())
	c.times.Add(o.times.Load())
}

// compare compares the time that a call took with what calls of its shape take elsewhere.
func (p *policy) compare(c *call, start, now time.Time) {
	ep, took := c.conn.ep, now.Sub(start)
	late := false
	if took > minLate {
		usual := ep.usualElsewhere(c)
		if usual == 0 {
			return
		}
		late = took > lateFactor*usual
	}
	if !ep.lateCalls.note(late, start, now) || !p.canProbe() || !rankedFirst(ep) || !p.mayEject(ep) {
		return
	}
	ep.lateCalls.window.Store(nil)
	p.note(ep, health.Evidence{Kind: health.Late, At: now, Often: true, Detail: fmt.Sprintf("%s answered after %v, as many calls", c.method, took.Round(time.Millisecond))})
}

// usualElsewhere returns what calls of the shape take at other endpoints that are well, 0 if that is
// not known.
func (e *Endpoint) usualElsewhere(c *call) (usual time.Duration) {
	shape, n := c.info().Shape, 0
	for _, other := range e.others() {
		if s := other.latency.known(shape); s != nil && s.ended.all.Load() >= learntElsewhere && rankedFirst(other) {
			usual += time.Duration(s.smoothed.Load())
			n++
		}
	}
	return usual / time.Duration(max(n, 1))
}

// learntElsewhere is how many calls make the latency of a shape known.
const learntElsewhere = 20

func rankedFirst(ep *Endpoint) bool { return rank(ep.State(), needFull) == 0 }

// mayEject reports whether, without the endpoint, at least half of the endpoints are left.
func (p *policy) mayEject(ep *Endpoint) bool {
	left, all := 0, p.all()
	for _, other := range all {
		if other != ep && other.Ready() && rankedFirst(other) {
			left++
		}
	}
	return left > 0 && 2*left >= len(all)
}
