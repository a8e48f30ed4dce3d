// Package nearest is the strategy "nearest": calls go to the endpoint that answers
// soonest, which usually is the one in the client's own zone. It saves the time, and the
// price, of traffic between zones.
//
// There is one connection to every endpoint; all but the nearest carry little: one call
// in 64 goes to the endpoints in turn, so that what is known of the others does not grow
// old. Of the calls, the streams and the bulk transfers only calls are measured and sent
// around so; the others go to the nearest endpoint at once.
//
// Do not use it to spread load: all clients of a zone send nearly everything to one
// endpoint. They leave it when it becomes slow, and then leave for the same other one.
// Package p2c weighs latency against load. And do not use it where calls that wait on
// purpose, such as locks and long polls, share the connection class of the short ones.
package nearest

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/balancer/roundrobin"
)

const (
	// An endpoint takes over only if it is better by a fifth and by 0.2 ms. Zones of one
	// region are 0.3 to 2 ms apart, and two machines of one zone differ by less than 0.2:
	// between those it is not worth moving. A fifth is what the smoothing leaves of the
	// noise of ordinary calls.
	worthwhileShare = 0.8
	worthwhile      = 200 * time.Microsecond

	// One pick in explore goes round: 1.6 % of the calls are slower than they could be,
	// and with 100 calls a second and three endpoints each is measured every two seconds.
	explore = 64
)

// Builder builds the strategy "nearest". It has no configuration of its own.
var Builder = balancer.Builder{
	Name:  "nearest",
	Build: func(serviceconfig.LoadBalancingConfig) balancer.Strategy { return newStrategy() },
}

type strategy struct {
	rotation *roundrobin.Rotation
	picks    atomic.Uint64
	// The endpoint in use, for calls that need full service and for those that do not:
	// the nearest member may be one that cannot give it.
	full, local atomic.Pointer[balancer.Endpoint]

	now     func() time.Time
	distant func(*balancer.Endpoint) *distance
}

var (
	_ balancer.Strategy = (*strategy)(nil)
	_ balancer.Attacher = (*strategy)(nil)
	_ balancer.Learner  = (*strategy)(nil)
	_ balancer.Forgiver = (*strategy)(nil)
)

func newStrategy() *strategy { return build(time.Now, remembered) }

func build(now func() time.Time, distant func(*balancer.Endpoint) *distance) *strategy {
	return &strategy{
		rotation: roundrobin.NewRotation(func(ep *balancer.Endpoint) *roundrobin.Turn {
			if d := distant(ep); d != nil {
				return &d.turn
			}
			return nil
		}),
		now: now, distant: distant,
	}
}

func remembered(ep *balancer.Endpoint) *distance {
	d, _ := ep.Memory().(*distance)
	return d
}

func (*strategy) Attach(*balancer.Endpoint) any { return new(distance) }

func (s *strategy) Pick(call balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint {
	if len(fit) == 1 {
		return fit[0]
	}
	if call.Conn == balancer.Calls {
		if ep := s.unmeasured(fit); ep != nil {
			return ep
		}
		if s.picks.Add(1)%explore == 0 {
			return s.rotation.Next(fit)
		}
	}
	if ep := s.nearest(call.Need, fit); ep != nil {
		return ep
	}
	return s.rotation.Next(fit)
}

// unmeasured returns an endpoint of which nothing is known, unless a call that will tell
// is in flight to it: one that hangs is not given more than one.
func (s *strategy) unmeasured(fit []*balancer.Endpoint) *balancer.Endpoint {
	for _, ep := range fit {
		if d := s.distant(ep); d != nil && d.smoothed() == 0 && ep.InFlight() == 0 {
			return ep
		}
	}
	return nil
}

// nearest returns the endpoint that is in use, or one that is to take over from it; nil
// if nothing is known of any.
func (s *strategy) nearest(need balancer.Need, fit []*balancer.Endpoint) *balancer.Endpoint {
	inUse := &s.full
	if need == balancer.Local {
		inUse = &s.local
	}
	current := inUse.Load()
	var held, shortest time.Duration // the distance of the one in use if it is fit, and of the best
	var best *balancer.Endpoint
	for _, ep := range fit {
		d := s.distant(ep)
		if d == nil || d.smoothed() == 0 {
			continue
		}
		if ep == current {
			held = d.smoothed()
		}
		if best == nil || d.smoothed() < shortest {
			best, shortest = ep, d.smoothed()
		}
	}
	if held != 0 && !takesOver(shortest, held) {
		return current
	}
	if best != nil {
		inUse.CompareAndSwap(current, best)
	}
	return best
}

// takesOver reports whether an endpoint at a distance is worth leaving one for.
func takesOver(distance, held time.Duration) bool {
	return float64(distance) <= worthwhileShare*float64(held) && held-distance >= worthwhile
}

func (s *strategy) Done(ep *balancer.Endpoint, r balancer.Result) {
	d := s.distant(ep)
	if d == nil {
		return
	}
	switch {
	case r.Failed:
		d.measured(slow, s.now())
	case r.Conn != balancer.Calls:
		// How long it took says what it was, and not how far the endpoint is.
	case r.Answered:
		d.measured(min(r.Took, slow), s.now())
	default:
		d.givenUp(min(r.Took, slow), s.now())
	}
}

// Restored has the next call measure the endpoint anew.
func (s *strategy) Restored(ep *balancer.Endpoint) {
	if d := s.distant(ep); d != nil {
		d.forget()
	}
}
