package roundrobin

import (
	"sync/atomic"

	"github.com/quorate/quorate/balancer"
)

// quantum is how long a turn of an endpoint of weight 1 takes on the clock; one of weight w
// takes a w-th of it.
const quantum = 1 << 32

// clock goes forward with the turns that are taken: it shows when the latest one began.
type clock struct{ now atomic.Uint64 }

func (c *clock) advance(to uint64) {
	for {
		now := c.now.Load()
		if to <= now || c.now.CompareAndSwap(now, to) {
			return
		}
	}
}

// candidate is an endpoint with the turn that it would have next.
type candidate struct {
	ep        *balancer.Endpoint
	turn      *Turn  // nil if the endpoint has none
	before    uint64 // end of the turn that it had
	cost, end uint64 // of the one that it would have
}

// weighted returns the endpoint whose next turn ends first, of all. The turns of one
// endpoint follow each other, so that the shares are exact, and spread evenly.
func (r *Rotation) weighted(fit []*balancer.Endpoint, ticket uint64) *balancer.Endpoint {
	begin := int(ticket % uint64(len(fit)))
	for {
		c := r.first(fit, begin)
		if c.turn == nil {
			return c.ep
		}
		if c.turn.end.CompareAndSwap(c.before, c.end) {
			r.clock.advance(c.end - c.cost)
			return c.ep
		}
	}
}

// first returns the candidate whose turn ends first; of equals the first one from begin on.
func (r *Rotation) first(fit []*balancer.Endpoint, begin int) candidate {
	now := r.clock.now.Load()
	var best candidate
	for i := range fit {
		c := r.candidate(fit[(begin+i)%len(fit)], now)
		if c.turn == nil {
			return c
		}
		if i == 0 || c.end < best.end {
			best = c
		}
	}
	return best
}

// candidate returns the turn that an endpoint would have next. What has passed while it was
// not fit is lost to it, but for one turn.
func (r *Rotation) candidate(ep *balancer.Endpoint, now uint64) candidate {
	c := candidate{ep: ep, turn: r.turnOf(ep)}
	if c.turn == nil {
		return c
	}
	c.cost = quantum / uint64(ep.Weight())
	c.before = c.turn.end.Load()
	c.end = max(c.before+c.cost, now)
	return c
}
