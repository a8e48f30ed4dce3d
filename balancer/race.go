package balancer

import (
	"slices"
	"time"

	"google.golang.org/grpc/connectivity"
)

// An endpoint may have several addresses, such as one of IPv4 and one of IPv6. gRPC tries the addresses of a connection
// in turn, within one timeout: an address that drops packets takes all of it. So, as in RFC 8305 ("happy eyeballs"),
// an attempt that takes long gets a fallback for each other address, and the first that connects is used.

// fallbackDelay is the time between the attempts: that of RFC 8305 and of gRPC's pick_first.
const fallbackDelay = 250 * time.Millisecond

// raceLocked begins an attempt at the next address if that under way takes long, and so on. The last fallback is for
// the address of the first attempt, which gRPC may have left meanwhile; it begins after the pause that is due there.
func (p *policy) raceLocked(s *subConn) {
	n, all, began := len(s.fallbacks), len(s.ep.addresses), s.attempted
	if all == 1 || n == all {
		return
	}
	delay := fallbackDelay
	if n == all-1 {
		delay = pauseAfter(s.failures, 1, maxOutagePause)
	}
	time.AfterFunc(delay, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.closed || !s.attempted.Equal(began) || s.state != connectivity.Connecting || len(s.fallbacks) != n {
			return
		}
		r := &subConn{ep: s.ep, class: s.class, onTrial: true, fallbackOf: s, first: (s.first + n + 1) % all}
		s.fallbacks = append(s.fallbacks, r)
		p.openLocked(r)
		p.raceLocked(s)
	})
}

// wonLocked handles a new state of a connection on trial. A fallback that has connected takes the place of its subConn,
// and the result is true. One that has failed tries again.
func (p *policy) wonLocked(r *subConn, state connectivity.State) bool {
	s := r.fallbackOf
	if s != nil && state == connectivity.Idle { // gRPC's backoff after a failed attempt is over
		p.reconnects.tryAtLocked(r, time.Now().Add(pauseAfter(s.failures+r.failures, 1, maxOutagePause)))
		r.failures++
	}
	if s == nil || state != connectivity.Ready {
		return false
	}
	s.fallbacks = slices.DeleteFunc(s.fallbacks, func(other *subConn) bool { return other == r })
	r.failing.Store(s.failing.Load())
	r.replaceLocked(s)
	r.fallbackOf = nil
	return true
}

// replaceLocked puts a connection in the place of another one, and closes that.
func (s *subConn) replaceLocked(old *subConn) {
	old.shutLocked()
	s.onTrial = false
	s.brief, s.foundDead = old.brief, old.foundDead
	s.useful.Store(old.useful.Load())
	s.made.Store(old.made.Load())
	s.ep.conns[old.class].Store(s)
}

// endRaceLocked closes the fallbacks.
func (s *subConn) endRaceLocked() {
	for _, r := range s.fallbacks {
		r.shutLocked()
	}
	s.fallbacks = nil
}
