package toolkit

import (
	"fmt"
	"strings"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/weightedroundrobin" // registers weighted_round_robin
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	_ "google.golang.org/grpc/xds" // registers outlier_detection_experimental

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/keepalive"
)

const (
	service = "grpc.testing.TestService"
	// healthCheck makes a policy follow the health service of its backends.
	healthCheck = `"healthCheckConfig": {"serviceName": ""}`
	// retries is how gRPC repeats calls, as package keepalive has it.
	retries = `"methodConfig": [{"name": [{"service": "` + service + `"}], "waitForReady": true, "retryPolicy": {
		"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "2s", "backoffMultiplier": 3, "retryableStatusCodes": ["UNAVAILABLE"]}}]`
	outlierDetection = `{"interval": "1s", "baseEjectionTime": "10s", "maxEjectionPercent": 50, "childPolicy": [{"round_robin": {}}],
		"failurePercentageEjection": {"threshold": 50, "minimumHosts": 3, "requestVolume": 5, "enforcementPercentage": 100}}`
)

// policy is a load-balancing policy, by its name.
type policy struct{ name, config string }

var policies = []policy{
	{"quorate_p2c", ""},
	{"quorate_round_robin", ""},
	{"round_robin", `{"round_robin": {}}`},
	{"weighted_round_robin", `{"weighted_round_robin": {}}`},
	{"outlier_detection", `{"outlier_detection_experimental": ` + outlierDetection + `}`},
	{"pick_first", `{"pick_first": {}}`},
}

// dialOptions returns the options of a channel for a scenario, with all that the policy's library offers for it.
func (p policy) dialOptions(s scenario, list resolver.Builder) ([]grpc.DialOption, error) {
	if p.config == "" {
		channel := quorate.Channel{TransportCredentials: insecure.NewCredentials(), Policy: p.name, Resolvers: []resolver.Builder{list}}
		if s.repeatable {
			channel.Calls = keepalive.Calls{Repeatable: []string{"/" + service + "/"}}
		}
		if s.healthChecked {
			channel.Calls.Base = "{" + healthCheck + "}"
		}
		return channel.DialOptions()
	}
	config := []string{fmt.Sprintf(`"loadBalancingConfig": [%s]`, p.config)}
	if s.repeatable {
		config = append(config, retries)
	}
	if s.healthChecked {
		config = append(config, healthCheck)
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithResolvers(list),
		grpc.WithDefaultServiceConfig("{" + strings.Join(config, ",") + "}"),
	}, nil
}
