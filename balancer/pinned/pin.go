package pinned

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/balancer"
)

// pin is the endpoint in use. Both forms embed it.
type pin struct {
	endpoint atomic.Pointer[balancer.Endpoint]
	last     atomic.Pointer[unpinned]
	env
}

// env is what a pin reads from outside. Tests replace it.
type env struct {
	now                func() time.Time
	random             func(n int) int // at least 0, less than n
	ready, unreachable func(*balancer.Endpoint) bool
	priority           func(*balancer.Endpoint) uint32
}

var realEnv = env{
	now: time.Now, random: rand.IntN,
	ready: (*balancer.Endpoint).Ready, unreachable: (*balancer.Endpoint).Unreachable, priority: (*balancer.Endpoint).Priority,
}

type unpinned struct {
	endpoint *balancer.Endpoint
	reason   Reason
	at       time.Time
}

// Pinned returns the endpoint that is in use, nil if none is.
func (p *pin) Pinned() *balancer.Endpoint { return p.endpoint.Load() }

// LastUnpin returns the endpoint that was unpinned last, why, and when.
func (p *pin) LastUnpin() (ep *balancer.Endpoint, reason Reason, at time.Time) {
	last := p.last.Load()
	if last == nil {
		return nil, None, time.Time{}
	}
	return last.endpoint, last.reason, last.at
}

// move replaces the pinned endpoint from by next, either of which may be nil. It returns
// false if from is no longer pinned.
func (p *pin) move(from, next *balancer.Endpoint, reason Reason) bool {
	if !p.endpoint.CompareAndSwap(from, next) {
		return false
	}
	if from != nil {
		p.last.Store(&unpinned{from, reason, p.now()})
	}
	return true
}

// reasonToUnpin returns the reason to unpin an endpoint that is, or was, connected.
func (p *pin) reasonToUnpin(ep *balancer.Endpoint) Reason {
	if reason := byState[ep.State()]; reason != None {
		return reason
	}
	if !p.ready(ep) {
		return Disconnected
	}
	return None
}

// randomUsable returns a random one of the connected endpoints that have no reason to be
// unpinned, nil if there is none.
func (p *pin) randomUsable(eps []*balancer.Endpoint) *balancer.Endpoint {
	if len(eps) == 0 {
		return nil
	}
	begin := p.random(len(eps))
	for i := range eps {
		if ep := eps[(begin+i)%len(eps)]; p.reasonToUnpin(ep) == None {
			return ep
		}
	}
	return nil
}

// randomOf returns a random one of the endpoints. There must be at least one.
func (p *pin) randomOf(eps []*balancer.Endpoint) *balancer.Endpoint { return eps[p.random(len(eps))] }
