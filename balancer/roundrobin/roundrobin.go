// Package roundrobin is the strategy "round_robin": calls go to the endpoints in turn. It
// is the default and suits services whose endpoints are alike and whose calls cost about
// the same.
//
// The policy connects to every endpoint.
//
// The policy ejects an endpoint whose calls fail or become late. Do not use it where endpoints
// differ in speed: every endpoint gets the same share, so that the slowest one sets the tail of
// the latency. Package p2c measures what that costs. Where each client should keep few
// connections, see package pinned.
package roundrobin

import (
	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/balancer"
)

// Builder builds the strategy "round_robin". It has no configuration of its own.
var Builder = balancer.Builder{
	Name:  "round_robin",
	Build: func(serviceconfig.LoadBalancingConfig) balancer.Strategy { return &strategy{NewRotation(nil)} },
}

type strategy struct{ rotation *Rotation }

var (
	_ balancer.Strategy = (*strategy)(nil)
	_ balancer.Attacher = (*strategy)(nil)
)

func (s *strategy) Pick(_ balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint {
	return s.rotation.Next(fit)
}

func (*strategy) Attach(*balancer.Endpoint) any { return new(Turn) }
