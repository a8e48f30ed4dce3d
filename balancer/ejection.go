package balancer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/health"
)

// An endpoint is ejected when many of its latest calls were late, and calls of the same shape are not
// elsewhere; or when many of them failed, and few do elsewhere. An endpoint that loses packets answers
// some calls as others do, and some after TCP has repeated them.

const (
	// callWindow is half of the time over which calls are counted.
	callWindow = 2500 * time.Millisecond
	// One call in lateShare must be late, and one in timelyShare must not: an endpoint that is far away is
	// never as fast as the others.
	lateShare, timelyShare = 4, 8
	// One call in failedShare must have failed, of leastCalls at least, and at most one in failedElsewhere
	// at the other endpoints.
	failedShare, failedElsewhere = 4, 16
	leastCalls                   = 20
	// badTimes is at how many separate times calls must have been late or have failed: a single
	// pause makes many calls late, and the loss of one connection fails many.
	badTimes = 4
	// badRun is how many calls in a row are enough, whatever the share.
	badRun = 8
	// minLateCall is the least time that is late for a call, where failures eject as well.
	minLateCall = 20 * time.Millisecond
	// maxEjectionPercent bounds the share of endpoints that are ejected at a time, by the default of
	// gRFC A50; maxLatePercent does where errors do not eject. One may be in any case.
	maxEjectionPercent, maxLatePercent = 10, 50
)

// tally counts the calls of an endpoint, and those that were bad in one way.
type tally struct {
	window        atomic.Pointer[count]
	latest        health.Stamp // when the latest of times was
	run, runTimes atomic.Int64 // since the latest call that was not bad
}

// count is the count of one window, after another one.
type count struct {
	began           health.Moment
	before          *count
	all, bad, times atomic.Int64
}

// sums are the counts of the present window and the one before, and of the present run.
type sums struct{ all, bad, times, run, runTimes int64 }

// note records a call that was picked at start.
func (t *tally) note(bad bool, start, now health.Moment) {
	w := t.window.Load()
	if w == nil || now-w.began >= health.Moment(callWindow) {
		next := &count{began: now}
		if w != nil && now-w.began < 2*health.Moment(callWindow) {
			next.before = &count{}
			next.before.all.Store(w.all.Load())
			next.before.bad.Store(w.bad.Load())
			next.before.times.Store(w.times.Load())
		}
		if !t.window.CompareAndSwap(w, next) {
			next = t.window.Load()
		}
		w = next
	}
	w.all.Add(1)
	if !bad {
		if t.run.Load() != 0 {
			t.run.Store(0)
			t.runTimes.Store(0)
		}
		return
	}
	w.bad.Add(1)
	t.run.Add(1)
	if !t.latest.After(start.Time()) { // it began after the latest time: this is another one
		t.latest.Set(now.Time())
		w.times.Add(1)
		t.runTimes.Add(1)
	}
}

// sums returns the counts. Old ones are 0.
func (t *tally) sums(now time.Time) sums {
	s := sums{run: t.run.Load(), runTimes: t.runTimes.Load()}
	w := t.window.Load()
	if w == nil || now.Sub(w.began.Time()) >= 2*callWindow {
		return s
	}
	for ; w != nil; w = w.before {
		s.all += w.all.Load()
		s.bad += w.bad.Load()
		s.times += w.times.Load()
	}
	return s
}

// forget begins a new window.
func (t *tally) forget(now time.Time) {
	t.window.Store(&count{began: health.MomentOf(now)})
	t.run.Store(0)
	t.runTimes.Store(0)
}

// inARow reports whether the latest calls were all bad.
func (s sums) inARow() bool { return s.run >= badRun && s.runTimes >= badTimes }

// late reports whether many calls were late, and some were not. With runs, enough late calls in a row are many.
func (s sums) late(runs bool) bool {
	many := s.bad*lateShare >= s.all && s.times >= badTimes || runs && s.inARow()
	return many && (s.all-s.bad)*timelyShare >= s.all
}

// failing reports whether many calls failed.
func (s sums) failing() bool {
	return s.all >= leastCalls && s.bad*failedShare >= s.all && s.times >= badTimes || s.inARow()
}

// count counts a call that has ended, and evaluates its endpoint if that may change it.
func (c *call) count(ended health.Moment, answered bool, err error) {
	ep, o, took := c.conn.ep, c.conn.ep.policy.options(), time.Duration(ended-c.start)
	errors, failed, late := o.Classify == nil, false, took > minLate
	if errors {
		failed = err != nil && o.Fault(err)
		late = !failed && took > minLateCall
	}
	if c.attempt.Large || !failed && !answered {
		return
	}
	if late {
		usual := ep.usualElsewhere(c)
		if usual == 0 {
			return
		}
		late = took > lateFactor*usual
	}
	if !failed {
		ep.lateCalls.note(late, c.start, ended)
	}
	if errors {
		ep.failedCalls.note(failed, c.start, ended)
	}
	if errors || late {
		c.evaluate(ended.Time(), took, late, failed, err)
	}
}

// evaluate ejects the endpoint of a call if too many of its calls are bad, and re-admits it once the calls that
// test it are good.
func (c *call) evaluate(now time.Time, took time.Duration, late, failed bool, err error) {
	ep, errors := c.conn.ep, c.conn.ep.policy.options().errorsEject()
	ev := health.Evidence{Kind: health.Served, At: now, Detail: "completed a call"}
	switch {
	case failed:
		ev = health.Evidence{Kind: health.Suspicious, At: now, Often: true, Err: err, Detail: c.method + ", as many calls"}
	case late:
		ev = health.Evidence{Kind: health.Late, At: now, Often: true, Detail: fmt.Sprintf("%s answered after %v, as many calls", c.method, took.Round(time.Millisecond))}
	}
	switch st := ep.Health(); {
	case errors && isTested(st):
		if !c.start.Time().Before(st.Since) {
			ep.policy.note(ep, ev)
			ep.tested(ev.Kind == health.Served, now)
		}
	case failed && ep.failedCalls.sums(now).failing() && ep.othersSucceed(now), late && ep.lateCalls.sums(now).late(errors):
		ep.eject(ev)
	}
}

// eject notes the evidence, if the endpoint may be ejected.
func (e *Endpoint) eject(ev health.Evidence) {
	p := e.policy
	if !p.options().errorsEject() && !p.prober.canProbe() || !rankedFirst(e) || !e.mayBeEjected() {
		return
	}
	e.lateCalls.forget(ev.At)
	e.failedCalls.forget(ev.At)
	p.note(e, ev)
}

// errorsEject reports whether failed calls eject endpoints. They do not with Options.Classify, for
// servers whose errors state their health.
func (o *Options) errorsEject() bool { return o.Classify == nil }

// usualElsewhere returns how long calls of c's shape take at other endpoints of the best rank, 0 if that is
// not known.
func (e *Endpoint) usualElsewhere(c *call) (usual time.Duration) {
	shape, n := c.attempt.info(c.method).Shape, 0
	for _, other := range e.others() {
		if s := other.latency.known(shape); s != nil && s.ended.all.Load() >= leastCalls && rankedFirst(other) {
			usual += time.Duration(s.smoothed.Load())
			n++
		}
	}
	return usual / time.Duration(max(n, 1))
}

// othersSucceed reports whether calls seldom fail at other endpoints of the best rank.
func (e *Endpoint) othersSucceed(now time.Time) bool {
	var all, bad int64
	for _, other := range e.others() {
		if rankedFirst(other) {
			s := other.failedCalls.sums(now)
			all, bad = all+s.all, bad+s.bad
		}
	}
	return all >= leastCalls && bad*failedElsewhere <= all
}

func rankedFirst(ep *Endpoint) bool { return rank(ep.State(), needFull) == 0 }

// mayBeEjected reports whether this endpoint and those out of use are within the bound. One endpoint may be
// ejected in any case.
func (e *Endpoint) mayBeEjected() bool {
	left, all := 0, e.policy.all()
	for _, other := range all {
		if other != e && other.Ready() && rankedFirst(other) {
			left++
		}
	}
	out, percent := len(all)-left, e.policy.options().maxEjectionPercent
	return left > 0 && percent > 0 && (out == 1 || 100*out <= percent*len(all))
}

// An endpoint gets a call from time to time although others are preferred, because probes can be
// wrong: they may be answered while calls fail or are late, or hang with the health service while
// calls succeed. A call that succeeds in time is followed by the next one at once.

const (
	// A call tests an endpoint that was ejected by calls after testPause, any other one after
	// testPauseOfProbed, and then after pauses that double up to maxTestPause.
	testPause         = time.Second
	testPauseOfProbed = 2 * time.Second
	maxTestPause      = 30 * time.Second
)

// retest says when a call may test the endpoint.
type retest struct {
	due   atomic.Pointer[time.Time]
	pause atomic.Int64 // the next one
}

// isTested reports whether it takes several calls to re-admit the endpoint.
func isTested(st *health.Status) bool { return st.State == health.Slow || isEjectedByCalls(st) }

// isEjectedByCalls reports whether the endpoint is ejected because many calls failed or were late.
// Probes do not re-admit it then, if errors eject.
func isEjectedByCalls(st *health.Status) bool {
	return st.Evidence.Often && (st.State == health.Slow || st.State == health.Suspected)
}

// onlyCallsReadmit reports whether an answered probe proves nothing.
func (e *Endpoint) onlyCallsReadmit() bool {
	return e.policy.options().errorsEject() && isEjectedByCalls(e.Health())
}

// isRetested reports whether calls test endpoints in a state. A server that says that it does not
// serve gets none.
func isRetested(s health.State) bool {
	return s == health.Slow || s == health.Suspected || s == health.Lagging || s == health.Dead
}

// expectTest sets when the first call tests an endpoint whose state has changed. A change between
// two tested states keeps the time: with a health service that hangs, one verdict follows
// another.
func (e *Endpoint) expectTest(c health.Change) {
	if !isRetested(c.To) || isRetested(c.From) && !c.Evidence.Often {
		return
	}
	pause := testPauseOfProbed
	if c.Evidence.Often {
		pause = testPause
	}
	e.retest.pause.Store(int64(2 * pause))
	e.retest.due.Store(new(time.Now().Add(jittered(pause))))
}

// jittered returns a random time, on average d.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// tested makes the next test due at once after a good one.
func (e *Endpoint) tested(good bool, now time.Time) {
	if good {
		e.retest.due.Store(&now)
	}
}

// toTest returns an endpoint that the call tests, nil for none.
func (k *picker) toTest(a *Attempt) *Endpoint {
	if a.Write || a.Large || a.class() != Calls || a.Need != Full || len(a.Avoid) > 0 {
		return nil
	}
	ep := k.doubted[rand.N(len(k.doubted))]
	due, now := ep.retest.due.Load(), time.Now()
	if due == nil || now.Before(*due) || !isRetested(ep.State()) || ep.usable[Calls].Load() == nil {
		return nil
	}
	pause := time.Duration(ep.retest.pause.Load())
	if !ep.retest.due.CompareAndSwap(due, new(now.Add(jittered(pause)))) {
		return nil // another call tests it
	}
	ep.retest.pause.Store(int64(min(2*pause, maxTestPause)))
	a.flags.add(flagTests)
	return ep
}

// isTesting reports whether the call tests its endpoint, and can still be answered in time.
func (c *call) isTesting(now time.Time) bool {
	return c.attempt.flags.has(flagTests) && now.Sub(c.start.Time()) < c.suspectAfter
}

// findDoubted finds the endpoints that calls test: of the priority in use, or of a better one.
func (k *picker) findDoubted() {
	if !k.p.options().errorsEject() {
		return
	}
	fit := k.fit[needFull]
	for _, ep := range k.connected {
		if isRetested(ep.State()) && !slices.Contains(fit, ep) && ep.Priority() <= fit[0].Priority() {
			k.doubted = append(k.doubted, ep)
		}
	}
}
