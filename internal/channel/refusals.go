package channel

import (
	"slices"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/pause"
)

// refusals holds the endpoints whose members refused a piece of work for a reason that
// concerns only that member.
type refusals struct {
	endpoints []*balancer.Endpoint
	unknown   int // refusals by an unknown endpoint
}

func (r *refusals) add(ep *balancer.Endpoint) {
	if ep == nil {
		r.unknown++
	} else if !slices.Contains(r.endpoints, ep) {
		r.endpoints = append(slices.DeleteFunc(r.endpoints, isRemoved), ep)
	}
}

// byAll reports whether every endpoint has refused, ep the latest. If ep is nil, for unknown, width
// refusals by unknown endpoints count as all.
func (r *refusals) byAll(ep *balancer.Endpoint, width int) bool {
	return r.complete(ep, width, func(*balancer.Endpoint) bool { return false })
}

// byAllReachable is like byAll, but ignores unreachable endpoints.
func (r *refusals) byAllReachable(ep *balancer.Endpoint, width int) bool {
	return r.complete(ep, width, func(other *balancer.Endpoint) bool {
		return other.Unreachable() || other.State() == health.Dead
	})
}

// byAllUsable is like byAll for an ep that is known, but ignores endpoints that do not serve calls of every kind.
func (r *refusals) byAllUsable(ep *balancer.Endpoint) bool {
	return r.complete(ep, 1, func(other *balancer.Endpoint) bool { return other.Unreachable() || !other.State().Usable() })
}

// complete reports whether every endpoint that is not excused has refused. It is false
// while a client has no endpoints because they are being replaced.
func (r *refusals) complete(ep *balancer.Endpoint, width int, excused func(*balancer.Endpoint) bool) bool {
	if ep == nil {
		return r.unknown >= width
	}
	siblings := ep.Siblings()
	for _, other := range siblings {
		if !slices.Contains(r.endpoints, other) && !excused(other) {
			return false
		}
	}
	return len(siblings) > 0
}

// isRemoved reports whether an endpoint is no longer one of the client's.
func isRemoved(ep *balancer.Endpoint) bool { return pause.Closed(ep.Removed()) }
