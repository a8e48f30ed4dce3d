// Package nearest is the strategy "nearest": calls go to the endpoint with the lowest
// latency, which is usually the one in the client's own zone. It saves the latency and
// the cost of traffic between zones.
//
// The policy connects to every endpoint. One call in 64 goes to the endpoints in turn, so
// that the latencies of all stay current; all other calls go to the nearest one. Streams
// and bulk transfers are not measured and always go to the nearest endpoint.
//
// Do not use it to spread load: all clients of a zone send nearly everything to one
// endpoint. When it becomes slow, they all move to the same other endpoint. Package p2c
// weighs latency against load. Nor use it where calls that wait on purpose, such as locks
// and long polls, share a connection class with short calls.
package nearest

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/balancer/roundrobin"
)

const (
	// An endpoint takes over only if it is better by a fifth and by 0.2 ms. Zones of one
	// region are 0.3 to 2 ms apart, and two machines of one zone differ by less than 0.2:
	// a move between those gains nothing. A fifth is the noise that remains after
	// smoothing.
	worthwhileShare = 0.8
	worthwhile      = 200 * time.Microsecond

	// One pick in explore goes to the endpoints in turn: 1.6 % of the calls. With 100
	// calls per second and three endpoints, each is measured every two seconds.
	explore = 64

	// compared is how many endpoints a pick compares with the one in use. Of longer lists each pick
	// compares another part.
	compared = 100
)

// Builder builds the strategy "nearest". It has no configuration of its own.
var Builder = balancer.Builder{
	Name:  "nearest",
	Build: func(serviceconfig.LoadBalancingConfig) balancer.Strategy { return build(time.Now) },
}

type strategy struct {
	rotation *roundrobin.Rotation
	picks    atomic.Uint64
	parts    atomic.Uint64 // of long lists that were compared
	// The endpoints in use for full and for local service: the nearest member may not
	// offer full service.
	full, local atomic.Pointer[balancer.Endpoint]

	now func() time.Time
}

var (
	_ balancer.Strategy = (*strategy)(nil)
	_ balancer.Attacher = (*strategy)(nil)
	_ balancer.Learner  = (*strategy)(nil)
	_ balancer.Restorer = (*strategy)(nil)
)

func build(now func() time.Time) *strategy {
	return &strategy{rotation: roundrobin.NewRotation(turnOf), now: now}
}

func distanceOf(ep *balancer.Endpoint) *distance {
	d, _ := ep.Memory().(*distance)
	return d
}

func turnOf(ep *balancer.Endpoint) *roundrobin.Turn {
	if d := distanceOf(ep); d != nil {
		return &d.turn
	}
	return nil
}

func (*strategy) Attach(*balancer.Endpoint) any { return new(distance) }

func (s *strategy) Pick(call balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint {
	if len(fit) == 1 {
		return fit[0]
	}
	part := s.part(fit)
	if call.Conn == balancer.Calls {
		if ep := unmeasured(part); ep != nil {
			return ep
		}
		if s.picks.Add(1)%explore == 0 {
			return s.rotation.Next(fit)
		}
	}
	if ep := s.nearest(call.Need, fit, part); ep != nil {
		return ep
	}
	return s.rotation.Next(fit)
}

// part returns the endpoints that a pick compares with the one in use: all, or the next part of many.
func (s *strategy) part(fit []*balancer.Endpoint) []*balancer.Endpoint {
	if len(fit) <= compared {
		return fit
	}
	all := (len(fit) + compared - 1) / compared
	begin := int(s.parts.Add(1)%uint64(all)) * compared
	return fit[begin:min(begin+compared, len(fit))]
}

// unmeasured returns an endpoint without an estimate and without a call in flight: an
// endpoint that hangs gets only one such call.
func unmeasured(fit []*balancer.Endpoint) *balancer.Endpoint {
	for _, ep := range fit {
		if d := distanceOf(ep); d != nil && d.smoothed() == 0 && ep.InFlight() == 0 {
			return ep
		}
	}
	return nil
}

// nearest returns the endpoint in use, or the one of the part that replaces it; nil if none of these
// has an estimate.
func (s *strategy) nearest(need balancer.Need, fit, part []*balancer.Endpoint) *balancer.Endpoint {
	inUse := &s.full
	if need == balancer.Local {
		inUse = &s.local
	}
	current := inUse.Load()
	var held, shortest time.Duration // the distance of the one in use if it is fit, and of the best
	var best *balancer.Endpoint
	if slices.Contains(fit, current) {
		held = known(current)
	}
	for _, ep := range part {
		if d := known(ep); d != 0 && (best == nil || d < shortest) {
			best, shortest = ep, d
		}
	}
	better := float64(shortest) <= worthwhileShare*float64(held) && held-shortest >= worthwhile
	if held != 0 && (best == nil || !better) {
		return current
	}
	if best != nil {
		inUse.CompareAndSwap(current, best)
	}
	return best
}

// known returns the distance of an endpoint, 0 if it is unknown.
func known(ep *balancer.Endpoint) time.Duration {
	if d := distanceOf(ep); d != nil {
		return d.smoothed()
	}
	return 0
}

func (s *strategy) Done(ep *balancer.Endpoint, r balancer.Result) {
	d := distanceOf(ep)
	if d == nil {
		return
	}
	switch {
	case r.Failed:
		d.measured(slow, s.now())
	case r.Conn != balancer.Calls:
		// The duration depends on the request, not on the distance.
	case r.Answered:
		d.measured(min(r.Took, slow), s.now())
	default:
		d.givenUp(min(r.Took, slow), s.now())
	}
}

// Restored discards the endpoint's estimate, so that the next call measures it again.
func (s *strategy) Restored(ep *balancer.Endpoint) {
	if d := distanceOf(ep); d != nil {
		d.forget()
	}
}

const (
	// gain is the least weight of a new measurement. At a sixteenth the smoothed latency
	// of calls whose latency varies as much as an exponential distribution does is within
	// a fifth of its mean most of the time.
	gain = 1.0 / 16
	// memory is how old an estimate is when it has lost most of its weight (1 - 1/e), so
	// that one measurement is enough where there are few.
	memory = 10 * time.Second
	// slow is the latency recorded for a failed call, and the maximum for any call. One
	// failure adds a sixteenth of it, 62 ms, which is more than the latency to any other
	// endpoint: the next call goes elsewhere. It takes about 64 successes to recover, or
	// one if the endpoint was ejected meanwhile.
	slow = time.Second
)

// distance is the smoothed latency of one endpoint.
type distance struct {
	turn roundrobin.Turn

	latency atomic.Int64 // nanoseconds, 0 if unknown
	mu      sync.Mutex   // held to change the latency
	at      time.Time    // when it was changed
}

// smoothed returns the latency, 0 if unknown.
func (d *distance) smoothed() time.Duration { return time.Duration(d.latency.Load()) }

// forget makes the distance unknown.
func (d *distance) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.latency.Store(0)
}

// measured records the latency of a call.
func (d *distance) measured(took time.Duration, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.updateLocked(took, now)
}

// givenUp records an unanswered call that its caller gave up. It counts only if the call
// had waited longer than usual. An endpoint without an estimate counts as slow then, so
// that the next call does not try it again.
func (d *distance) givenUp(took time.Duration, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch known := d.smoothed(); {
	case known == 0:
		d.updateLocked(slow, now)
	case took > known:
		d.updateLocked(took, now)
	}
}

func (d *distance) updateLocked(took time.Duration, now time.Time) {
	took = max(took, 1)
	if known := d.smoothed(); known != 0 {
		weight := max(gain, 1-math.Exp(-float64(now.Sub(d.at))/float64(memory)))
		took = known + time.Duration(weight*float64(took-known))
	}
	d.latency.Store(int64(took))
	d.at = now
}
