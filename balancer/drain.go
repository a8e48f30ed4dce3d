package balancer

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

// errDrained ends the remaining work on a removed endpoint.
var errDrained = status.Error(codes.Unavailable, "the endpoint was removed, and its drain timeout is over")

// drains lets in-flight work on removed endpoints finish within the drain timeout. An endpoint that
// the resolver lists again meanwhile keeps its connections, their in-flight work and its health: a
// list that flaps ends nothing.
type drains struct {
	p *policy
	// timers end the drains; nil after Close. The policy's lock guards it.
	timers map[*Endpoint]*time.Timer
}

// beginLocked removes an endpoint. While work is in flight its connections stay, in case the resolver lists it again. The
// connection for bulk transfers is shut at once: gRPC completes those that are in progress.
func (d *drains) beginLocked(ep *Endpoint) listing {
	removal := health.Evidence{Kind: health.Removed, At: time.Now()}
	c := health.Change{Endpoint: ep.address, From: ep.State(), To: health.Draining, Evidence: removal}
	ep.lifetime.Load().end()
	ep.unsubscribe()
	ep.withdrawLocked()
	for _, s := range ep.connections() {
		if s.class == Bulk || !s.ready.Load() || !ep.hasInFlight() {
			s.shutLocked()
		}
	}
	var timer *time.Timer
	timer = time.AfterFunc(d.p.config.drainTimeout, func() { d.end(ep, &timer) })
	d.timers[ep] = timer
	return listing{ep, c}
}

// reviveLocked takes an endpoint back that the resolver lists again.
func (d *drains) reviveLocked(ep *Endpoint) listing {
	d.timers[ep].Stop()
	delete(d.timers, ep)
	ep.list(d.p.ctx)
	d.p.subscribe(ep)
	now := ep.Health()
	return listing{ep, health.Change{Endpoint: ep.address, From: health.Draining, To: now.State, Evidence: now.Evidence}}
}

// retire closes the connections of a removed endpoint once nothing is in flight there.
func (d *drains) retire(ep *Endpoint) {
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	if d.timers[ep] != nil && !ep.hasInFlight() {
		ep.shutLocked()
	}
}

// end ends what is in flight at the end of the drain timeout, unless the endpoint has returned.
func (d *drains) end(ep *Endpoint, timer **time.Timer) {
	p := d.p
	p.mu.Lock() // which also waits until timer is set
	if d.timers[ep] != *timer {
		p.mu.Unlock()
		return
	}
	delete(d.timers, ep)
	ep.shutLocked()
	p.mu.Unlock()
	p.close(ep.conn(Calls), errDrained)
	p.close(ep.conn(Streams), errDrained)
	p.options().Events.Closed(ep, errDrained)
	ep.inflight.stop()
	ep.healthEntry().Release()
}

// stopLocked ends all drains and returns their endpoints.
func (d *drains) stopLocked() []*Endpoint {
	for _, timer := range d.timers {
		timer.Stop()
	}
	draining := slices.Collect(maps.Keys(d.timers))
	d.timers = nil
	return draining
}

// shutLocked ends the endpoint's connections gracefully.
func (e *Endpoint) shutLocked() {
	for _, s := range e.connections() {
		s.shutLocked()
	}
}
