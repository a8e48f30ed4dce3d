package balancer

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/health"
)

// maxShapes bounds the shapes of a ClientConn, as the clients of a proxy choose the names of methods.
// All further shapes count as otherShape.
const (
	maxShapes  = 1000
	otherShape = "other"
)

// shapes holds the latency of each shape of call, over all endpoints.
type shapes struct {
	byName sync.Map // name → *health.Latency
	count  atomic.Int64
}

// get returns the latencies of a shape, and the name under which they are kept.
func (c *shapes) get(name string) (string, *health.Latency) {
	if l, ok := c.byName.Load(name); ok {
		return name, l.(*health.Latency)
	}
	if c.count.Add(1) > maxShapes {
		name = otherShape
	}
	l, known := c.byName.LoadOrStore(name, new(health.Latency))
	if known {
		c.count.Add(-1) // another call has counted it
	}
	return name, l.(*health.Latency)
}

// stat holds the statistics of one shape of call at one endpoint.
type stat struct {
	*health.Latency
	// answered is the start of the call that was answered last.
	answered health.Stamp
	// smoothed is the latency at this endpoint, in nanoseconds.
	smoothed atomic.Int64
	ended    ended
}

// smoothing is how many calls the smoothed latency remembers.
const smoothing = 16

func (s *stat) observe(start time.Time, took time.Duration) {
	s.answered.Set(start)
	s.Observe(took)
	old := s.smoothed.Load()
	if old == 0 {
		old = int64(took)
	}
	s.smoothed.Store(old + (int64(took)-old)/smoothing)
}

// latencies holds the stats of one endpoint, by shape. The map is copied on write: it is
// small, and each call reads it.
type latencies struct {
	byShape atomic.Pointer[map[string]*stat]
}

func (g *latencies) known(shape string) *stat {
	if known := g.byShape.Load(); known != nil {
		return (*known)[shape]
	}
	return nil
}

func (g *latencies) get(shape string, all *shapes) *stat {
	shape, latency := all.get(shape)
	for {
		old := g.byShape.Load()
		if known := g.known(shape); known != nil {
			return known
		}
		next := map[string]*stat{shape: {Latency: latency}}
		if old != nil {
			maps.Copy(next, *old)
		}
		g.byShape.CompareAndSwap(old, &next)
	}
}

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
	return min(max(uint32(w), DefaultWeight), MaxWeight)
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
	for i, ep := range p.all() {
		weight := WeightOf(eps[i])
		ep.weight.Store(weight)
		ep.priority.Store(PriorityOf(eps[i]))
		weighted = weighted || weight != WeightOf(eps[0])
	}
	p.weighted.Store(weighted)
}
