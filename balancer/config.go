package balancer

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/grpcprobe"
)

// DefaultDrainTimeout is how long calls and streams on a removed endpoint may continue before its
// connections are closed. Bulk transfers are not interrupted. If the resolver lists the endpoint again
// before that, nothing ends.
const DefaultDrainTimeout = 30 * time.Second

// config is the policy's part of a service config, and the strategy's.
type config struct {
	serviceconfig.LoadBalancingConfig

	drainTimeout       time.Duration
	maxEjectionPercent int
	prober             health.Prober
	strategy           serviceconfig.LoadBalancingConfig

	// source is the JSON object. It is a string because configs are compared.
	source string
}

// MarshalJSON returns what the config was parsed from. Parent policies, for example those
// of xDS, pass the config on as JSON.
func (c config) MarshalJSON() ([]byte, error) { return []byte(c.source), nil }

var defaultConfig = config{drainTimeout: DefaultDrainTimeout, maxEjectionPercent: maxEjectionPercent, source: "{}"}

// parse reads a service config's object for a policy:
//
//	{
//	  "drainTimeout": "30s",
//	  "healthProbe": {"serviceName": "helloworld.Greeter"},
//	  "outlierDetection": {"maxEjectionPercent": 10}
//	}
//
// The strategy's own fields are in the same object. "healthProbe" enables probes with grpc.health.v1.
// "maxEjectionPercent" bounds the endpoints that may be ejected because their calls fail or are late;
// one may be in any case, unless it is 0.
func parse(b Builder, js json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	var fields struct {
		DrainTimeout json.RawMessage `json:"drainTimeout"`
		HealthProbe  *struct {
			ServiceName string `json:"serviceName"`
		} `json:"healthProbe"`
		OutlierDetection struct {
			MaxEjectionPercent *uint32 `json:"maxEjectionPercent"`
		} `json:"outlierDetection"`
	}
	if err := json.Unmarshal(js, &fields); err != nil {
		return nil, fmt.Errorf("%s%s: %w", Prefix, b.Name, err)
	}
	c := defaultConfig
	c.source = string(js)
	if fields.DrainTimeout != nil {
		d := new(durationpb.Duration)
		if err := protojson.Unmarshal(fields.DrainTimeout, d); err != nil || d.AsDuration() <= 0 {
			return nil, fmt.Errorf("%s%s: drainTimeout must be a positive duration such as \"30s\"; it is %s", Prefix, b.Name, fields.DrainTimeout)
		}
		c.drainTimeout = d.AsDuration()
	}
	if fields.HealthProbe != nil {
		c.prober = grpcprobe.Prober{Service: fields.HealthProbe.ServiceName}
	}
	if percent := fields.OutlierDetection.MaxEjectionPercent; percent != nil {
		if *percent > 100 {
			return nil, fmt.Errorf("%s%s: outlierDetection.maxEjectionPercent must be at most 100; it is %d", Prefix, b.Name, *percent)
		}
		c.maxEjectionPercent = int(*percent)
	}
	if b.Parse != nil {
		var err error
		if c.strategy, err = b.Parse(js); err != nil {
			return nil, fmt.Errorf("%s%s: %w", Prefix, b.Name, err)
		}
	}
	return c, nil
}

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
