package channel

import (
	"encoding/json"
	"fmt"
	"strings"

	gbalancer "google.golang.org/grpc/balancer"

	"github.com/quorate/quorate/balancer"
	_ "github.com/quorate/quorate/balancer/policies" // the strategies that can be chosen
	"github.com/quorate/quorate/internal/leader"
)

// DefaultStrategy is the strategy of a channel without a configured one.
const DefaultStrategy = "round_robin"

// The strategy for members that have a leader is etcd's own.
func init() { balancer.Register(leader.Builder) }

// Balancing chooses the strategy by which calls are spread over the endpoints.
type Balancing struct {
	// Strategy is a name under which one is registered with package balancer, such as
	// "p2c", without or with [balancer.Prefix]. "" leaves it to the service config.
	Strategy string
	// Config are the fields of the policy and the strategy, a JSON object; nil for
	// their defaults.
	Config json.RawMessage
}

// serviceConfig returns the service config of the channel's ClientConns, and the name of
// the strategy in it: that of b, or else the first one in loadBalancingConfig of the user's service
// config that there is, or else the default. Retry is not configured there: grpc's
// own is off (see dialOptions) because it resends writes that a broken connection
// may have delivered.
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

// fromServiceConfig reads loadBalancingConfig: a list of policies, of which the
// first counts that is known.
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

// policyOf returns the name of the gRPC policy with a strategy, whose name may have
// the prefix already, and whether there is one.
func policyOf(strategy string) (string, bool) {
	name := balancer.Prefix + strings.TrimPrefix(strategy, balancer.Prefix)
	return name, gbalancer.Get(name) != nil
}
