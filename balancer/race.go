package balancer

import (
	"slices"
	"time"

	"google.golang.org/grpc/connectivity"
)

// An endpoint may have several addresses, such as one of IPv4 and one of IPv6. gRPC tries those of a connection in turn,
// within one timeout: one that swallows packets takes all of it. So the others are tried beside an attempt that takes
// long, each by a rival, and what connects first is used.

// rivalDelay is the time between the attempts: that of RFC 8305, and of gRPC's policies.
const rivalDelay = 250 * time.Millisecond

// raceLocked begins attempts at the other addresses if that under way takes long. The last one is at its own first
// address, which gRPC may have left: after the pause that is due there.
func (p *policy) raceLocked(s *subConn) {
	n, all, began := len(s.rivals), len(s.ep.addresses), s.attempted
	if all == 1 || n == all {
		return
	}
	delay := rivalDelay
	if n == all-1 {
		delay = pauseAfter(s.failures, 1, maxOutagePause)
	}
	time.AfterFunc(delay, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.closed || !s.attempted.Equal(began) || s.state != connectivity.Connecting || len(s.rivals) != n {
			return
		}
		r := &subConn{ep: s.ep, class: s.class, onTrial: true, rivalOf: s, first: (s.first + n + 1) % all}
		s.rivals = append(s.rivals, r)
		p.openLocked(r)
		p.raceLocked(s)
	})
}

// wonLocked handles a new state of a connection on trial. If it is a rival that has connected, that takes the place of
// its subConn, and the result is true; one that has failed tries again.
func (p *policy) wonLocked(r *subConn, state connectivity.State) bool {
	s := r.rivalOf
	if s != nil && state == connectivity.Idle { // gRPC's backoff after a failed attempt is over
		p.reconnects.tryAtLocked(r, time.Now().Add(pauseAfter(s.failures+r.failures, 1, maxOutagePause)))
		r.failures++
	}
	if s == nil || state != connectivity.Ready {
		return false
	}
	s.rivals = slices.DeleteFunc(s.rivals, func(other *subConn) bool { return other == r })
	r.failing.Store(s.failing.Load())
	r.replaceLocked(s)
	r.rivalOf = nil
	return true
}

// replaceLocked gives a connection the place of another one, which is closed.
func (s *subConn) replaceLocked(old *subConn) {
	old.shutLocked()
	s.onTrial = false
	s.made.Store(old.made.Load())
	s.ep.conns[old.class].Store(s)
}

// endRaceLocked closes the rivals.
func (s *subConn) endRaceLocked() {
	for _, r := range s.rivals {
		r.shutLocked()
	}
	s.rivals = nil
}
