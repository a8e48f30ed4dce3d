package channel

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/endpoint"
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
	e.observer.Picked(observe.Pick{Endpoint: e.names.of(ep), Method: call.Method, Lane: lanes[call.Conn]})
}

// Closed implements balancer.Events. That calls and streams ended, their own events
// tell.
func (*events) Closed(*balancer.Endpoint, error) {}

// Changed implements balancer.Events.
func (e *events) Changed(ep *balancer.Endpoint, change health.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change.Endpoint = e.names.of(ep)
	e.observer.StateChanged(change)
	siblings := ep.Siblings()
	anyFit := false
	for _, s := range siblings {
		anyFit = anyFit || s.State().Usable()
	}
	for _, s := range siblings {
		e.update(s, anyFit)
	}
	if isRemoved(ep) {
		delete(e.ejected, ep)
	}
}

// update notes whether an endpoint is used: one that is not fit is not, while any
// other is.
func (e *events) update(ep *balancer.Endpoint, anyFit bool) {
	now := time.Now()
	status := ep.Health()
	out := anyFit && !status.State.Usable()
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

// names are what the client was given for the addresses of its endpoints, as it may
// be shown. Those of endpoints that were removed are kept: what runs there goes on
// for a while.
type names struct {
	byAddress atomic.Pointer[map[string]string]
}

// set adds endpoints. It is not called concurrently.
func (n *names) set(eps []endpoint.Endpoint) {
	next := make(map[string]string, len(eps))
	if known := n.byAddress.Load(); known != nil && len(*known) < maxNames {
		for address, name := range *known {
			next[address] = name
		}
	}
	for _, ep := range eps {
		next[ep.Address] = ep.String()
	}
	n.byAddress.Store(&next)
}

// shown returns the names of endpoints as they may be shown, each endpoint once.
func shown(eps []endpoint.Endpoint) []string {
	all := make([]string, 0, len(eps))
	seen := make(map[string]bool, len(eps))
	for _, ep := range eps {
		if !seen[ep.Address] {
			seen[ep.Address] = true
			all = append(all, ep.String())
		}
	}
	return all
}

// maxNames bounds the names that are kept by a client whose endpoints come and go.
const maxNames = 1000

// of returns the name of an endpoint, "" for nil.
func (n *names) of(ep *balancer.Endpoint) string {
	if ep == nil {
		return ""
	}
	return n.ofAddress(ep.Address())
}

func (n *names) ofAddress(address string) string {
	if known := n.byAddress.Load(); known != nil {
		if name, ok := (*known)[address]; ok {
			return name
		}
	}
	return address
}
