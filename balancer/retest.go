package balancer

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/health"
)

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
