package balancer

import (
	"strconv"

	"google.golang.org/grpc/resolver"
)

// DefaultWeight is the weight of an endpoint for which the resolver sets none.
const DefaultWeight = 1

// MaxWeight is the largest weight. Larger weights are reduced to it.
const MaxWeight = 1 << 16

type weightKey struct{}

// String names the attribute in gRPC's log.
func (weightKey) String() string { return "quorate.weight" }

// weight is the attribute's value.
type weight uint32

func (w weight) String() string { return strconv.FormatUint(uint64(w), 10) }

// SetWeight returns the endpoint with a weight, for use by resolvers. An endpoint with
// twice the weight gets twice the calls from round_robin, and from p2c if it is as fast as
// others: it may also have twice the in-flight calls. Other strategies ignore weights. 0 means [DefaultWeight]; to take an endpoint
// out of service, remove it from the list.
func SetWeight(ep resolver.Endpoint, w uint32) resolver.Endpoint {
	ep.Attributes = ep.Attributes.WithValue(weightKey{}, weight(w))
	return ep
}

// WeightOf returns an endpoint's weight, from 1 to [MaxWeight].
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

// SetPriority returns the endpoint with a priority, for use by resolvers. 0, the default, is the
// best. With every strategy, the policy uses the endpoints of the best rank, and among these the
// ones of the best priority. The others stay connected and take calls while no endpoint of a
// better priority is connected and in the same rank, and repetitions and hedges of calls that only they are left for.
func SetPriority(ep resolver.Endpoint, priority uint32) resolver.Endpoint {
	ep.Attributes = ep.Attributes.WithValue(priorityKey{}, priority)
	return ep
}

// PriorityOf returns an endpoint's priority.
func PriorityOf(ep resolver.Endpoint) uint32 {
	priority, _ := ep.Attributes.Value(priorityKey{}).(uint32)
	return priority
}

// Weight returns the endpoint's weight, from 1 to [MaxWeight].
func (e *Endpoint) Weight() uint32 { return max(e.weight.Load(), DefaultWeight) }

// Priority returns the endpoint's priority, 0 the best.
func (e *Endpoint) Priority() uint32 { return e.priority.Load() }

// SetWeight changes the weight of a detached endpoint, as the resolver does for others.
func (e *Endpoint) SetWeight(weight uint32) { e.weight.Store(min(weight, MaxWeight)) }

// Weighted reports whether endpoints of the ClientConn differ in weight. For a detached
// endpoint it reports whether its weight is not [DefaultWeight].
func (e *Endpoint) Weighted() bool {
	if e.policy == nil {
		return e.Weight() != DefaultWeight
	}
	return e.policy.weighted.Load()
}

// weighLocked applies the resolver's weights and priorities. It needs the endpoints in the
// order of eps.
func (p *policy) weighLocked(eps []resolver.Endpoint) {
	weighted := false
	for i, ep := range p.endpoints {
		weight := WeightOf(eps[i])
		ep.weight.Store(weight)
		ep.priority.Store(PriorityOf(eps[i]))
		weighted = weighted || weight != WeightOf(eps[0])
	}
	p.weighted.Store(weighted)
}
