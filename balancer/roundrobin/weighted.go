package roundrobin

import (
	"sync/atomic"

	"github.com/quorate/quorate/balancer"
)

// quantum is how long a turn of an endpoint of weight 1 takes on the clock; one of weight w
// takes a w-th of it.
const quantum = 1 << 32

// maxLead is further ahead of the clock than a turn ends: that is one turn, and one more for
// each pick in progress and has not advanced the clock yet.
const maxLead = 64 * quantum

// clock goes forward with the turns that are taken: it shows when the latest one began. It
// goes round, after 2^33 picks of two endpoints at the earliest.
type clock struct{ now atomic.Uint64 }

func (c *clock) advance(to uint64) {
	for {
		now := c.now.Load()
		if lead(to, now) <= 0 || c.now.CompareAndSwap(now, to) {
			return
		}
	}
}

// lead returns how far a time is ahead of another one, negative if it is behind.
func lead(to, from uint64) int64 { return int64(to - from) } //nolint:gosec // the clock goes round

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
		if i == 0 || lead(c.end, best.end) < 0 {
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
	c.end = c.before + c.cost
	// What seems to be far ahead is half the clock behind, or more.
	if d := lead(c.end, now); c.before == 0 || d < 0 || d > maxLead {
		c.end = now
	}
	return c
}
