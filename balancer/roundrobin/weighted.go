package roundrobin

import (
	"math/bits"
	"slices"

	"github.com/quorate/quorate/balancer"
)

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
