package channel

import (
	"sync"
	"time"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
)

// events tell an observer what the balancer does.
type events struct {
	observer observe.Observer
	names    *names

	mu      sync.Mutex // held while the observer is told of states, which keeps them in order
	ejected map[*balancer.Endpoint]time.Time
}

// newEvents returns nil for no observer.
func newEvents(o observe.Observer, n *names) balancer.Events {
	if o == nil {
		return nil
	}
	return &events{observer: o, names: n, ejected: make(map[*balancer.Endpoint]time.Time)}
}

var lanes = [...]observe.Lane{
	balancer.Calls: observe.LaneCalls, balancer.Streams: observe.LaneStreams, balancer.Bulk: observe.LaneBulk,
}

// Picked implements balancer.Events.
func (e *events) Picked(ep *balancer.Endpoint, call balancer.Call) {
	e.observer.Picked(observe.Pick{Endpoint: e.names.of(ep), Method: call.Method, Lane: lanes[call.Lane]})
}

// Reset implements balancer.Events. That calls and streams ended, their own events
// tell.
func (*events) Reset(*balancer.Endpoint, error) {}

// Changed implements balancer.Events.
func (e *events) Changed(ep *balancer.Endpoint, change health.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change.Endpoint = e.names.of(ep)
	e.observer.StateChanged(change)
	siblings := ep.Siblings()
	anyFit := false
	for _, s := range siblings {
		anyFit = anyFit || isFit(s.State())
	}
	for _, s := range siblings {
		e.update(s, anyFit)
	}
	if isGone(ep) {
		delete(e.ejected, ep)
	}
}

// update notes whether an endpoint is used: one that is not fit is not, while any
// other is.
func (e *events) update(ep *balancer.Endpoint, anyFit bool) {
	now := time.Now()
	status := ep.Health()
	out := anyFit && !isFit(status.State)
	since, was := e.ejected[ep]
	switch {
	case out && !was:
		e.ejected[ep] = now
		e.observer.Ejected(observe.Ejection{Endpoint: e.names.of(ep), State: status.State, Evidence: status.Evidence})
	case was && !out:
		delete(e.ejected, ep)
		e.observer.Readmitted(observe.Readmission{Endpoint: e.names.of(ep), After: now.Sub(since)})
	}
}

// isFit reports whether endpoints in a state serve calls of every kind.
func isFit(s health.State) bool {
	switch s {
	case health.Unknown, health.Serving, health.Suspected, health.Slow:
		return true
	default:
		return false
	}
}
