package balancer

import (
	"strconv"

	"google.golang.org/grpc/resolver"
)

// DefaultWeight is that of an endpoint to which the resolver gives none.
const DefaultWeight = 1

// MaxWeight is the largest weight. Larger ones count as this one.
const MaxWeight = 1 << 16

type weightKey struct{}

// String names the attribute in gRPC's log.
func (weightKey) String() string { return "quorate.weight" }

// weight is the attribute's value.
type weight uint32

func (w weight) String() string { return strconv.FormatUint(uint64(w), 10) }

// SetWeight returns the endpoint with a weight, which resolvers set: of two endpoints the
// one with twice the weight gets twice the calls from round_robin, and p2c lets it have
// twice the calls in flight. Other strategies take no account of it. 0 means
// [DefaultWeight]; to take an endpoint out of service, leave it out.
func SetWeight(ep resolver.Endpoint, w uint32) resolver.Endpoint {
	ep.Attributes = ep.Attributes.WithValue(weightKey{}, weight(w))
	return ep
}

// WeightOf returns the weight that an endpoint was given, from 1 to [MaxWeight].
func WeightOf(ep resolver.Endpoint) uint32 {
	w, _ := ep.Attributes.Value(weightKey{}).(weight)
	if w == 0 {
		return DefaultWeight
	}
	return min(uint32(w), MaxWeight)
}

type priorityKey struct{}

// String names the attribute in gRPC's log.
func (priorityKey) String() string { return "quorate.priority" }

// SetPriority returns the endpoint with a priority, which resolvers set: 0, the default, is the
// best. Of the endpoints that serve a call equally well, the policy uses those of the best
// priority, with every strategy. The others are connected and take the calls while none of these
// serves as well, or is connected.
func SetPriority(ep resolver.Endpoint, priority uint32) resolver.Endpoint {
	ep.Attributes = ep.Attributes.WithValue(priorityKey{}, priority)
	return ep
}

// PriorityOf returns the priority that an endpoint was given.
func PriorityOf(ep resolver.Endpoint) uint32 {
	priority, _ := ep.Attributes.Value(priorityKey{}).(uint32)
	return priority
}

// Weight returns the endpoint's weight, from 1 to [MaxWeight].
func (e *Endpoint) Weight() uint32 { return max(e.weight.Load(), DefaultWeight) }

// SetWeight changes the weight of a detached endpoint, as the resolver does for others.
func (e *Endpoint) SetWeight(weight uint32) { e.weight.Store(min(weight, MaxWeight)) }

// Weighted reports whether endpoints of the ClientConn differ in weight. One that is
// detached speaks for itself: it says so if its weight is not [DefaultWeight].
func (e *Endpoint) Weighted() bool {
	if e.policy == nil {
		return e.Weight() != DefaultWeight
	}
	return e.policy.weighted.Load()
}

// weigh takes in the weights and priorities that the resolver gives. It needs the lock, and the endpoints
// in the order of eps.
func (p *policy) weigh(eps []resolver.Endpoint) {
	weighted := false
	for i, ep := range p.endpoints {
		weight := WeightOf(eps[i])
		ep.weight.Store(weight)
		ep.priority.Store(PriorityOf(eps[i]))
		weighted = weighted || weight != WeightOf(eps[0])
	}
	p.weighted.Store(weighted)
}
