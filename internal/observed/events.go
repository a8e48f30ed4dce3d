// Package observed passes the events of a balancer policy to an observe.Observer.
package observed

import (
	"sync"
	"time"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
)

// events passes the events of a policy to an observer.
type events struct {
	observer observe.Observer
	calls    observe.CallObserver // nil if the observer is not one
	name     func(*balancer.Endpoint) string

	mu      sync.Mutex // held while the observer receives states, which keeps them in order
	ejected map[*balancer.Endpoint]time.Time
}

// Events returns nil for no observer. name returns the name of an endpoint for the observer.
func Events(o observe.Observer, name func(*balancer.Endpoint) string) balancer.Events {
	if o == nil {
		return nil
	}
	return &events{observer: o, calls: observe.Calls(o), name: name, ejected: make(map[*balancer.Endpoint]time.Time)}
}

var lanes = [...]observe.Lane{
	balancer.Calls: observe.LaneCalls, balancer.Streams: observe.LaneStreams, balancer.Bulk: observe.LaneBulk,
}

// Picked implements balancer.Events.
func (e *events) Picked(ep *balancer.Endpoint, call balancer.Call) {
	e.observer.Picked(observe.Pick{Endpoint: e.name(ep), Method: call.Method, Lane: lanes[call.Conn]})
}

// Ended implements balancer.Events.
func (e *events) Ended(ep *balancer.Endpoint, call balancer.Call, took time.Duration, err error) {
	if e.calls != nil {
		e.calls.Attempted(observe.Attempt{
			Endpoint: e.name(ep), Method: call.Method, Lane: lanes[call.Conn], Err: err, Took: took,
		})
	}
}

// Closed implements balancer.Events. The ends of calls and streams have their own events.
func (*events) Closed(*balancer.Endpoint, error) {}

// Changed implements balancer.Events.
func (e *events) Changed(ep *balancer.Endpoint, change health.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change.Endpoint = e.name(ep)
	e.observer.StateChanged(change)
	siblings := ep.Siblings()
	anyFit := false
	for _, s := range siblings {
		anyFit = anyFit || s.State().Usable()
	}
	for _, s := range siblings {
		e.update(s, anyFit)
	}
	select {
	case <-ep.Removed():
		delete(e.ejected, ep)
	default:
	}
}

// update updates whether an endpoint is used: an unfit one is not while another one is fit.
func (e *events) update(ep *balancer.Endpoint, anyFit bool) {
	now := time.Now()
	status := ep.Health()
	out := anyFit && !status.State.Usable()
	since, was := e.ejected[ep]
	switch {
	case out && !was:
		e.ejected[ep] = now
		e.observer.Ejected(observe.Ejection{Endpoint: e.name(ep), State: status.State, Evidence: status.Evidence})
	case was && !out:
		delete(e.ejected, ep)
		e.observer.Readmitted(observe.Readmission{Endpoint: e.name(ep), After: now.Sub(since)})
	}
}
