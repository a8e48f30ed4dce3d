package balancer

import (
	"encoding/json"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/serviceconfig"
)

// Prefix precedes the name of each strategy in a service config.
const Prefix = "quorate_"

// Register registers the policy with a strategy, so that service configs can select it.
// Like gRPC's own Register it must be called from an init function. Registering a name
// again replaces the strategy.
func Register(b Builder) { balancer.Register(registered{b}) }

// registered builds the policy with one strategy, for gRPC.
type registered struct{ Builder }

func (r registered) Name() string { return Prefix + r.Builder.Name }

func (r registered) ParseConfig(js json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	return parse(r.Builder, js)
}

func (r registered) Build(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	return newPolicy(cc, r.Builder)
}
