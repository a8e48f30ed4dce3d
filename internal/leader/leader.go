// Package leader is the strategy "leader", for members of a Raft cluster: writes and
// linearizable reads go to the member that leads, which saves the hop that a follower
// makes for each of them. Everything else is spread over all members: calls that any
// member serves by itself ([balancer.Local]), watches and other streams, and bulk reads,
// which would only take the leader's time.
//
// While the leader is unknown, or cannot be used, those calls are spread as well: every
// member forwards them. So a change of leader fails no call for the strategy's sake.
//
// There is one connection to every endpoint. The endpoints are asked for their role when
// they connect and when there are signs that it changed, so a [health.Prober] that
// reports roles is needed; without one this is round robin.
//
// Do not use it when the leader is what is short: with many reads, round_robin puts the
// work of answering them on all members, and leaves the leader only to confirm that it
// still leads.
package leader

import (
	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/balancer/roundrobin"
	"github.com/quorate/quorate/health/etcdprobe"
)

// Builder builds the strategy "leader". It has no configuration of its own.
var Builder = balancer.Builder{
	Name:  "leader",
	Build: func(serviceconfig.LoadBalancingConfig) balancer.Strategy { return newStrategy() },
}

type strategy struct{ rotation *roundrobin.Rotation }

var (
	_ balancer.Strategy  = (*strategy)(nil)
	_ balancer.Attacher  = (*strategy)(nil)
	_ balancer.RoleAware = (*strategy)(nil)
)

func newStrategy() *strategy { return &strategy{roundrobin.NewRotation(nil)} }

func (s *strategy) Pick(call balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint {
	if call.Need == balancer.Full && call.Conn == balancer.Calls {
		if ep := leading(fit); ep != nil {
			return ep
		}
	}
	return s.rotation.Next(fit)
}

func (*strategy) Attach(*balancer.Endpoint) any { return new(roundrobin.Turn) }

// RoleAware has the endpoints asked for their roles.
func (*strategy) RoleAware() {}

// leading returns the endpoint that leads, nil if that is not known or it is not among
// fit. Of members that disagree the one with the highest term is right, be it the leader
// itself or a follower that names it: a leader that was deposed while nobody could tell
// it still takes itself for one, in a lower term.
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
