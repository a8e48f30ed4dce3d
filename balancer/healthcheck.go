package balancer

import (
	"cmp"
	"errors"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/quorate/quorate/health"
)

// gRPC's client-side health check (gRFC A17, "healthCheckConfig" in a service config) watches
// grpc.health.v1 over each connection for calls. A connection gets calls while its server says SERVING,
// as with gRPC's round_robin. Without that config gRPC says READY at once. A policy above this one may
// report through the same listener, as gRPC's outlier_detection_experimental does to eject a connection.

var errUnhealthy = errors.New("the health check says that the backend does not serve")

// healthChanged handles a report of gRPC's health check.
func (s *subConn) healthChanged(sc balancer.SubConn, st balancer.SubConnState) {
	p := s.ep.policy
	p.mu.Lock()
	if p.closed || s.sc != sc || !s.ready.Load() {
		p.mu.Unlock()
		return
	}
	ep, healthy := s.ep, st.ConnectivityState == connectivity.Ready
	s.withheld.Store(!healthy)
	s.unhealthy = nil
	if st.ConnectivityState == connectivity.TransientFailure {
		s.unhealthy = cmp.Or(st.ConnectionError, errUnhealthy)
	}
	err := s.unhealthy
	if !healthy {
		ep.withdrawLocked()
	}
	p.mu.Unlock()
	ev := health.Evidence{Kind: health.Refusing, At: time.Now(), Err: err, Detail: "health check"}
	switch {
	case err != nil:
		ep.refuses.Store(true)
		p.note(ep, ev)
	case healthy && ep.refuses.Swap(false):
		ev.Kind = health.Served
		p.note(ep, ev)
	}
	p.publish()
}

// takesCalls reports whether the connection is ready and its server says that it serves.
func (s *subConn) takesCalls() bool { return s.ready.Load() && !s.withheld.Load() }

// withdrawLocked takes the connections from pickers.
func (e *Endpoint) withdrawLocked() {
	for class := range e.usable {
		e.usable[class].Store(nil)
	}
}

// endsStatement reports whether the evidence would clear an endpoint that has said itself that it does not
// serve.
func endsStatement(k health.Kind) bool {
	switch k {
	case health.Answered, health.Served, health.Late, health.Degrading, health.Restricting:
		return true
	default:
		return false
	}
}
