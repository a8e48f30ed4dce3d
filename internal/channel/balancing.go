package channel

import (
	"encoding/json"
	"fmt"
	"strings"

	gbalancer "google.golang.org/grpc/balancer"

	"github.com/quorate/quorate/balancer"
	_ "github.com/quorate/quorate/balancer/policies" // the built-in strategies
	"github.com/quorate/quorate/internal/leader"
)

// DefaultStrategy is the strategy of a channel without a configured one.
const DefaultStrategy = "round_robin"

// init registers "leader", which package policies does not have: it is for members of a Raft cluster.
func init() { balancer.Register(leader.Builder) }

// Balancing selects the strategy that spreads calls over the endpoints.
type Balancing struct {
	// Strategy is the name of a strategy registered with package balancer, such as "p2c", with or
	// without [balancer.Prefix]. "" leaves the choice to the service config.
	Strategy string
	// Config has the fields of the policy and the strategy, as a JSON object; nil for their
	// defaults.
	Config json.RawMessage
}

// serviceConfig returns the service config of the channel's ClientConns, and the name of its
// strategy: b's, or else the first known one in loadBalancingConfig of the user's service config,
// or else the default. It does not configure gRPC's retry, which is off (see dialOptions) because
// it resends writes that a broken connection may have delivered.
func (b Balancing) serviceConfig(user string) (js, strategy string, err error) {
	if b.Strategy == "" {
		if b, err = fromServiceConfig(user); err != nil {
			return "", "", err
		}
	}
	name, ok := policyOf(b.Strategy)
	if !ok {
		return "", "", fmt.Errorf("balancing: there is no strategy %q; %q is one", b.Strategy, DefaultStrategy)
	}
	if b.Config == nil {
		b.Config = json.RawMessage("{}")
	}
	if parser, ok := gbalancer.Get(name).(gbalancer.ConfigParser); ok {
		if _, err := parser.ParseConfig(b.Config); err != nil {
			return "", "", fmt.Errorf("balancing: %w", err)
		}
	}
	out, err := json.Marshal(map[string]any{
		"loadBalancingConfig": []map[string]json.RawMessage{{name: b.Config}},
	})
	if err != nil {
		return "", "", fmt.Errorf("balancing: %w", err)
	}
	return string(out), strings.TrimPrefix(name, balancer.Prefix), nil
}

// fromServiceConfig returns the first known policy in loadBalancingConfig.
func fromServiceConfig(js string) (Balancing, error) {
	var raw struct {
		LoadBalancingConfig []map[string]json.RawMessage `json:"loadBalancingConfig"`
	}
	if js != "" {
		if err := json.Unmarshal([]byte(js), &raw); err != nil {
			return Balancing{}, fmt.Errorf("service config: %w", err)
		}
	}
	if len(raw.LoadBalancingConfig) == 0 {
		return Balancing{Strategy: DefaultStrategy}, nil
	}
	var unknown []string
	for i, entry := range raw.LoadBalancingConfig {
		if len(entry) != 1 {
			return Balancing{}, fmt.Errorf("service config: loadBalancingConfig[%d]: it must have exactly one field, the policy's name", i)
		}
		for name, config := range entry {
			if _, ok := policyOf(name); ok {
				return Balancing{Strategy: name, Config: config}, nil
			}
			unknown = append(unknown, name)
		}
	}
	return Balancing{}, fmt.Errorf("service config: loadBalancingConfig: none of its policies is known here (%s); %q is one",
		strings.Join(unknown, ", "), DefaultStrategy)
}

// policyOf returns the name of the gRPC policy with a strategy, whose name may have the prefix,
// and whether that policy exists.
func policyOf(strategy string) (string, bool) {
	name := balancer.Prefix + strings.TrimPrefix(strategy, balancer.Prefix)
	return name, gbalancer.Get(name) != nil
}
