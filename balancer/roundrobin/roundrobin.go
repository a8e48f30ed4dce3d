// Package roundrobin is the strategy "round_robin": calls go to the endpoints in turn. It
// is the default and suits services whose endpoints are alike and whose calls cost about
// the same.
//
// The policy connects to every endpoint.
//
// The policy ejects an endpoint whose calls fail or become late. Do not use it where endpoints
// differ in speed: every endpoint gets the same share, so that the slowest one sets the tail of
// the latency. Package p2c measures what that costs. Where each client should keep few
// connections, see package pinned.
package roundrobin

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/balancer"
)

// Builder builds the strategy "round_robin". It has no configuration of its own.
var Builder = balancer.Builder{
	Name:  "round_robin",
	Build: func(serviceconfig.LoadBalancingConfig) balancer.Strategy { return &strategy{NewRotation(nil)} },
}

type strategy struct{ rotation *Rotation }

var (
	_ balancer.Strategy = (*strategy)(nil)
	_ balancer.Attacher = (*strategy)(nil)
)

func (s *strategy) Pick(_ balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint {
	return s.rotation.Next(fit)
}

func (*strategy) Attach(*balancer.Endpoint) any { return new(Turn) }

// golden is the golden ratio's fraction of 2^64. The multiples of it, modulo 2^64, are spread
// evenly over all values, from any one on; so are every second of them, every third, and so on.
const golden = 0x9e3779b97f4a7c15

// shares has the shares of a list of endpoints.
type shares struct {
	first **balancer.Endpoint // identifies the list, with its length
	ends  []uint64            // sums of the weights up to and including each endpoint
}

// weighted returns the endpoint whose share of fit has the ticket's place. Each endpoint gets its
// share of any sequence of tickets within a few picks, also if fit changes meanwhile.
func (r *Rotation) weighted(fit []*balancer.Endpoint, ticket uint64) *balancer.Endpoint {
	ends := r.ends(fit, ticket)
	place, _ := bits.Mul64(ticket*golden, ends[len(fit)-1])
	i, _ := slices.BinarySearch(ends, place+1)
	return fit[i]
}

// ends returns the ends of the shares of fit, and keeps them: most picks are from the lists of one picker.
func (r *Rotation) ends(fit []*balancer.Endpoint, ticket uint64) []uint64 {
	for i := range r.kept {
		if s := r.kept[i].Load(); s != nil && s.first == &fit[0] && len(s.ends) == len(fit) {
			return s.ends
		}
	}
	s := &shares{&fit[0], make([]uint64, len(fit))}
	sum := uint64(0)
	for i, ep := range fit {
		sum += uint64(ep.Weight())
		s.ends[i] = sum
	}
	r.kept[ticket%uint64(len(r.kept))].Store(s)
	return s.ends
}

// window is how many endpoints a Rotation compares. With at most this many, as in any
// etcd cluster, the order is exact; with more, a pick still costs no more than eight
// comparisons.
const window = 8

// Rotation picks endpoints in turn, for strategies without a preference among them, or
// without one for some calls.
//
// While the set of endpoints is stable, it follows their order, from a random start, so
// that the clients of a service are not in step. The set may differ from call to call,
// because an endpoint flaps or because only some can serve this kind of call; a plain
// counter would then favour some endpoints. So Rotation takes the endpoint that has
// waited longest: of all endpoints if there are at most eight, else of eight. An endpoint
// then gets at least one of every n calls that it is fit for, where n is the number of
// endpoints, up to eight. Endpoints with different weights ([balancer.SetWeight]) get
// their share of the calls that they are fit for, evenly spread.
//
// Its methods may be called concurrently and never block.
type Rotation struct {
	turnOf  func(*balancer.Endpoint) *Turn
	tickets atomic.Uint64
	kept    [4]atomic.Pointer[shares] // of recent lists
}

// Turn is a Rotation's state for one endpoint. The zero value is an endpoint that was not
// picked yet.
type Turn struct {
	ticket atomic.Uint64 // that of the latest turn, 0 for none
}

// NewRotation returns a Rotation. turnOf returns the Turn of an endpoint; a nil turnOf
// uses [balancer.Endpoint.Memory]. For endpoints without a Turn the Rotation is a plain
// counter.
func NewRotation(turnOf func(*balancer.Endpoint) *Turn) *Rotation {
	if turnOf == nil {
		turnOf = remembered
	}
	r := &Rotation{turnOf: turnOf}
	r.tickets.Store(uint64(rand.Uint32()))
	return r
}

func remembered(ep *balancer.Endpoint) *Turn {
	turn, _ := ep.Memory().(*Turn)
	return turn
}

// Next returns the endpoint of fit whose turn it is. fit must not be empty, and must not be
// modified later.
func (r *Rotation) Next(fit []*balancer.Endpoint) *balancer.Endpoint {
	if len(fit) == 1 {
		return fit[0]
	}
	ticket := r.tickets.Add(1)
	if fit[0].Weighted() {
		return r.weighted(fit, ticket)
	}
	for {
		ep, turn, before := r.longestWaiting(fit, ticket)
		if turn == nil || turn.ticket.CompareAndSwap(before, ticket) {
			return ep
		}
	}
}

// longestWaiting returns the endpoint that has waited longest within a window of fit. The
// ticket gives the start of the window. turn is nil for an endpoint without one.
func (r *Rotation) longestWaiting(fit []*balancer.Endpoint, ticket uint64) (ep *balancer.Endpoint, turn *Turn, before uint64) {
	n := len(fit)
	begin := int(ticket % uint64(n))
	for i := range min(n, window) {
		candidate := fit[(begin+i)%n]
		t := r.turnOf(candidate)
		if t == nil {
			return candidate, nil, 0
		}
		if latest := t.ticket.Load(); turn == nil || latest < before {
			ep, turn, before = candidate, t, latest
		}
	}
	return ep, turn, before
}
