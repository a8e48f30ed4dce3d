package roundrobin

import (
	"sync/atomic"

	"github.com/quorate/quorate/balancer"
)

// quantum is the length of a turn of an endpoint of weight 1 on the clock; a turn of weight
// w is 1/w of it.
const quantum = 1 << 32

// maxLead is more than the end of a turn can be ahead of the clock: one turn, plus one for
// each pick in progress that has not advanced the clock yet.
const maxLead = 64 * quantum

// clock is the virtual time of weighted turns: the start of the latest turn. It wraps
// around, after 2^33 picks of two endpoints at the earliest.
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
func lead(to, from uint64) int64 { return int64(to - from) } //nolint:gosec // the clock wraps around

// candidate is an endpoint with its next turn.
type candidate struct {
	ep        *balancer.Endpoint
	turn      *Turn  // nil if the endpoint has none
	before    uint64 // end of the turn that it had
	cost, end uint64 // of the one that it would have
}

// weighted returns the endpoint of fit whose next turn ends first. An endpoint's turns
// follow each other without gaps, so that the shares are exact and evenly spread.
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

// first returns the candidate whose turn ends first; among equals, the first one from begin
// on.
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

// candidate returns an endpoint's next turn. An endpoint that was not fit for a while
// catches up on one turn at most.
func (r *Rotation) candidate(ep *balancer.Endpoint, now uint64) candidate {
	c := candidate{ep: ep, turn: r.turnOf(ep)}
	if c.turn == nil {
		return c
	}
	c.cost = quantum / uint64(ep.Weight())
	c.before = c.turn.end.Load()
	c.end = c.before + c.cost
	// A time further ahead than maxLead is an old one: the clock has wrapped around.
	if d := lead(c.end, now); c.before == 0 || d < 0 || d > maxLead {
		c.end = now
	}
	return c
}
