// Package leader is the strategy "leader", for members of a Raft cluster: writes and
// linearizable reads go to the member that leads, which saves the hop that a follower
// makes for each of them. Everything else is spread over all members: calls that any
// member serves by itself ([balancer.Local]), watches and other streams, and bulk reads,
// which would only take the leader's time.
//
// While the leader is unknown or unusable, those calls are spread as well: every member forwards
// them. So no call fails because the leader changed.
//
// Every endpoint has one connection. Endpoints are probed for their role when they connect and
// when there is evidence of a change, so a [health.Prober] that reports roles is required; without
// one the strategy is round robin.
//
// Do not use it when the leader is the bottleneck: with many reads, round_robin spreads the work
// of answering them, and the leader only confirms its leadership.
package leader

import (
	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/balancer/roundrobin"
	"github.com/quorate/quorate/health/etcdprobe"
)

// Builder builds the strategy "leader". It has no configuration.
var Builder = balancer.Builder{
	Name: "leader",
	Build: func(serviceconfig.LoadBalancingConfig) balancer.Strategy {
		return &strategy{roundrobin.NewRotation(nil)}
	},
}

type strategy struct{ rotation *roundrobin.Rotation }

var (
	_ balancer.Strategy  = (*strategy)(nil)
	_ balancer.Attacher  = (*strategy)(nil)
	_ balancer.RoleAware = (*strategy)(nil)
)

func (s *strategy) Pick(call balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint {
	if call.Need == balancer.Full && call.Conn == balancer.Calls {
		if ep := leading(fit); ep != nil {
			return ep
		}
	}
	return s.rotation.Next(fit)
}

func (*strategy) Attach(*balancer.Endpoint) any { return new(roundrobin.Turn) }

// RoleAware makes the policy request roles.
func (*strategy) RoleAware() {}

// leading returns the endpoint of the leader, nil if it is unknown or not among fit. If members
// disagree, the one with the highest term is right, whether it is the leader or a follower that
// names it: a deposed leader that could not be reached still considers itself leader, in a lower
// term.
func leading(fit []*balancer.Endpoint) *balancer.Endpoint {
	var latest etcdprobe.Role
	for _, ep := range fit {
		role := etcdprobe.RoleOf(ep.Health())
		if role.Leader != 0 && role.Term >= latest.Term {
			latest = role
		}
	}
	if latest.Leader == 0 {
		return nil
	}
	for _, ep := range fit {
		if etcdprobe.RoleOf(ep.Health()).ID == latest.Leader {
			return ep
		}
	}
	return nil
}
