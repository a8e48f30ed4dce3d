package balancer

import (
	"slices"
	"time"

	"github.com/quorate/quorate/balancer/internal/probe"
	"github.com/quorate/quorate/health"
)

// A write sent over a silent connection may be delivered much later, and its outcome is unknown until then. So a
// new write waits unsent while the connections of all endpoints that could take it are silent. The first sign of
// life releases it. If its context ends first, it was certainly not executed.

// heard returns those of the endpoints whose connection is not silent. If all are silent, it returns all of
// them for a read; a write waits for the next picker.
func (p *policy) heard(fit []*Endpoint, write bool) []*Endpoint {
	if write {
		p.holding.Store(true) // before the connections are checked: what arrives from now on releases the write
		for _, ep := range fit {
			if ep.State() == health.Suspected {
				p.checks.checkConn(ep.conn(Calls)) // it may not have been probed yet
			}
		}
	}
	heard := slices.DeleteFunc(slices.Clone(fit), (*Endpoint).isSilent)
	if len(heard) == 0 && !write {
		return fit
	}
	return heard
}

// isSilent reports whether the connection for calls has left a probe unanswered for as long as a dead one.
func (e *Endpoint) isSilent() bool {
	s := e.conn(Calls)
	sent := s.probeSent.Load()
	return sent != nil && !s.heard.After(*sent) && s.silentFor(time.Now()) >= probe.DeadAfter
}

// release makes gRPC pick again for the writes that wait, and reports whether there may be any.
func (p *policy) release() bool {
	if !p.holding.CompareAndSwap(true, false) {
		return false
	}
	p.publish()
	return true
}
