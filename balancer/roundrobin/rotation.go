package roundrobin

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/quorate/quorate/balancer"
)

// window is how many endpoints a Rotation compares. Up to this many, which is any etcd
// cluster, the order is exact whatever changes; beyond, the cost of a pick stays that of
// eight.
const window = 8

// Rotation gives endpoints their turns, for strategies that have no preference among
// them, or none for some calls.
//
// While the endpoints stay the same it goes round in their order. Where it begins is
// random, so that the clients of one service do not beat on its endpoints in step. When
// the endpoints differ from call to call, because one of them flaps, or because only
// some can serve this kind of call, a counter alone would meet the same ones again and
// again. So the endpoint that has waited longest is taken: of all if there are eight or
// fewer, else of eight. Of n calls that it is fit for an endpoint then gets at least one,
// n being the number of endpoints, up to eight. Where endpoints differ in weight see
// [balancer.SetWeight]: each gets its share of the calls that it is fit for.
//
// Its methods may be called concurrently and never block.
type Rotation struct {
	turnOf  func(*balancer.Endpoint) *Turn
	tickets atomic.Uint64
	clock   clock
}

// Turn is what a Rotation keeps for an endpoint. The zero value is one that has not had
// its turn yet.
type Turn struct {
	ticket atomic.Uint64 // that of the latest turn, 0 for none
	end    atomic.Uint64 // of the latest turn on the clock of weighted turns, 0 for none
}

// NewRotation returns a Rotation. turnOf returns where the Turn of an endpoint is kept;
// nil means that it is the endpoint's memory. For endpoints without a Turn the
// Rotation is a mere counter.
func NewRotation(turnOf func(*balancer.Endpoint) *Turn) *Rotation {
	if turnOf == nil {
		turnOf = remembered
	}
	r := &Rotation{turnOf: turnOf}
	r.tickets.Store(uint64(rand.Uint32()))
	r.clock.now.Store(quantum) // 0 is the end of no turn
	return r
}

func remembered(ep *balancer.Endpoint) *Turn {
	turn, _ := ep.Memory().(*Turn)
	return turn
}

// Next returns the endpoint of fit, which must not be empty, whose turn it is.
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

// longestWaiting looks at a window of fit that begins where the ticket says. The turn is
// nil for an endpoint that has none.
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
