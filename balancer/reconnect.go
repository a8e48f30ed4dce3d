package balancer

import (
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/connectivity"
)

// gRPC retries failed connections with its backoff (grpc.WithConnectParams). The policy
// adds four rules.
const (
	// reconnectSpread is the time over which lost connections are reestablished while
	// other endpoints serve, so that the clients of a member do not reconnect all at
	// once.
	reconnectSpread = 200 * time.Millisecond
	// An endpoint that has failed for longer than reconnectEagerly, while others serve, is
	// tried less often: after gRPC's backoff it waits for up to half of the time for which it
	// has failed, and up to maxReconnectWait. The wait ends when the endpoint is needed: see
	// wakeWaiting.
	reconnectEagerly = time.Minute
	maxReconnectWait = 50 * time.Second
	// While nothing is connected, a failed attempt is repeated within outageBackoff, with
	// full jitter, regardless of gRPC's backoff. This ends after outageLength, which is
	// longer than the restart of a member or a host.
	outageBackoff = 3 * time.Second
	outageLength  = 30 * time.Second
	// connectPatience is how long streams wait for a connection before they use another
	// endpoint.
	connectPatience = 500 * time.Millisecond
)

// reconnect reestablishes a lost connection for calls. It needs the policy's lock.
func (p *policy) reconnect(s *subConn) {
	sc := s.sc
	if !p.anyReady() {
		sc.Connect()
		return
	}
	spread := reconnectSpread
	if failing := sinceOf(s.failingSince, time.Now()); failing > reconnectEagerly && p.anyUsable() {
		spread = min(failing/2, maxReconnectWait)
	}
	time.AfterFunc(rand.N(spread), sc.Connect)
}

// wakeWaiting ends, at a random time within the given one, the waits of endpoints that have
// failed for long. They are needed because another endpoint is lost, or may be back because
// another one is. It needs the lock.
func (p *policy) wakeWaiting(within time.Duration) {
	for _, ep := range p.endpoints {
		if s := ep.conn(Calls); s.isWaiting() {
			time.AfterFunc(rand.N(within), s.sc.Connect)
		}
	}
}

// isWaiting reports whether the next attempt to connect waits for reconnect. It needs the
// policy's lock.
func (s *subConn) isWaiting() bool {
	return s.sc != nil && s.state == connectivity.Idle && !s.failingSince.IsZero()
}

// anyReady reports whether there is a connection for calls. It needs the policy's lock.
func (p *policy) anyReady() bool {
	for _, ep := range p.endpoints {
		if ep.conn(Calls).ready.Load() {
			return true
		}
	}
	return false
}

// anyUsable reports whether an endpoint that is connected serves calls of every kind. It needs
// the policy's lock.
func (p *policy) anyUsable() bool {
	for _, ep := range p.endpoints {
		if ep.Ready() && ep.State().Usable() {
			return true
		}
	}
	return false
}

// noteOutage records since when there is no connection for calls. It needs the lock.
func (p *policy) noteOutage(state connectivity.State) {
	if state == connectivity.Ready || len(p.endpoints) == 0 {
		p.outageSince = time.Time{}
		return
	}
	if !p.outageSince.IsZero() {
		return
	}
	p.outageSince = time.Now()
	p.wakeWaiting(outageBackoff)
	for _, ep := range p.endpoints {
		p.reconnectSoon(ep.conn(Calls))
	}
}

// inOutage reports whether there has been no connection, for less than outageLength. It
// needs the lock.
func (p *policy) inOutage() bool {
	return !p.outageSince.IsZero() && time.Since(p.outageSince) < outageLength
}

// reconnectSoon repeats a failed attempt to connect for calls soon, in an outage. It needs
// the lock.
func (p *policy) reconnectSoon(s *subConn) {
	if s.class != Calls || s.state != connectivity.TransientFailure || !p.inOutage() {
		return
	}
	sc := s.sc
	time.AfterFunc(rand.N(outageBackoff), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.closed && s.sc == sc && p.inOutage() {
			p.reopen(s)
		}
	})
}

// reconnectOthers ends the backoff of other endpoints when s connects: the fault that
// affected s, and perhaps them, is over. It does so once for each failing connection. It
// needs the lock.
func (p *policy) reconnectOthers(s *subConn) {
	p.wakeWaiting(reconnectSpread)
	for _, ep := range p.endpoints {
		for _, other := range ep.connections() {
			if other != s && other.state == connectivity.TransientFailure && !other.renewed {
				other.renewed = true
				p.reopen(other)
			}
		}
	}
}

// reopen ends the backoff of a connection. It needs the lock.
func (p *policy) reopen(s *subConn) {
	if s.state != connectivity.TransientFailure {
		return
	}
	s.sc.Shutdown()
	s.sc, s.state = nil, connectivity.Idle
	p.open(s)
}

// expect limits how long streams wait for a connection: after connectPatience they use
// other endpoints, and the endpoint is suspected. It needs the policy's lock.
func (p *policy) expect(s *subConn) {
	sc, due := s.sc, time.Now().Add(connectPatience)
	time.AfterFunc(connectPatience, func() {
		now := time.Now()
		if p.markSlow(s, sc, now.Sub(due)) {
			p.publish()
			p.suspect(s.ep, now, fmt.Sprintf("not connected within %v", connectPatience))
		}
	})
}

// markSlow marks a connection that was not established in time.
func (p *policy) markSlow(s *subConn, sc any, late time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || s.sc != sc || s.state != connectivity.Connecting || s.slow {
		return false
	}
	if late > starved {
		p.expect(s) // the connection may be ready, but unread
		return false
	}
	s.slow = true
	return true
}
