package balancer

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/grpcprobe"
)

// DefaultDrainTimeout is how long calls and streams on an endpoint that was removed may
// go on before its connections are closed.
const DefaultDrainTimeout = 30 * time.Second

// Options are what a resolver gives to the policy of its ClientConn in code, because no
// service config can say it. All fields may be left out.
type Options struct {
	// Table is told what is learnt of the endpoints. It serves one ClientConn. Default:
	// a table of the policy's own.
	Table *health.Table
	// Prober is asked whether an endpoint does its work. Default: that of the service
	// config, and without one there is none; then silence makes other endpoints preferred,
	// for as long as it lasts, and none is ejected.
	Prober health.Prober
	// Liveness is a cheaper probe, for connections that are quiet and for roles. Default:
	// Prober.
	Liveness health.Prober
	// Judge says what an error shows that a server answered a call with; ok is false if
	// it shows nothing. Default: errors show nothing.
	Judge func(err error) (kind health.Kind, ok bool)
	// Fault reports whether an error is the server's or the network's fault. Default:
	// Unavailable, Internal, Unknown, DataLoss and ResourceExhausted are, and
	// DeadlineExceeded.
	Fault func(err error) bool
	// Events is told what the policy does. Default: nobody is.
	Events Events
}

// Events is told what the policy does. Its methods are called concurrently and must not
// block. A nil *Endpoint does not occur.
type Events interface {
	// Picked is called for each attempt of a call that was given an endpoint.
	Picked(ep *Endpoint, call Call)
	// Changed is called after each change of an endpoint's state, in the order in which
	// they happen to one endpoint.
	Changed(ep *Endpoint, change health.Change)
	// Reset is called when the connections of an endpoint are closed under the calls and
	// streams on them, with the reason.
	Reset(ep *Endpoint, reason error)
}

type optionsKey struct{}

// WithOptions returns the state with options for the policy.
func WithOptions(state resolver.State, o *Options) resolver.State {
	if state.Attributes == nil {
		state.Attributes = attributes.New(optionsKey{}, o)
	} else {
		state.Attributes = state.Attributes.WithValue(optionsKey{}, o)
	}
	return state
}

func optionsOf(state resolver.State) Options {
	if o, ok := state.Attributes.Value(optionsKey{}).(*Options); ok && o != nil {
		return *o
	}
	return Options{}
}

// config is the policy's part of a service config, and the strategy's.
type config struct {
	serviceconfig.LoadBalancingConfig

	drainTimeout time.Duration
	prober       health.Prober
	strategy     serviceconfig.LoadBalancingConfig

	// source is the object that it was parsed from. A string, because configs are compared.
	source string
}

// MarshalJSON returns what the config was parsed from. Policies that have this one below
// them, those of xDS for example, pass its config on as JSON.
func (c config) MarshalJSON() ([]byte, error) { return []byte(c.source), nil }

var defaultConfig = config{drainTimeout: DefaultDrainTimeout, source: "{}"}

// parse reads a service config's object for a policy:
//
//	{
//	  "drainTimeout": "30s",
//	  "healthProbe": {"serviceName": "helloworld.Greeter"}
//	}
//
// and the fields of the strategy beside these. "healthProbe" asks grpc.health.v1.
func parse(b Builder, js json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	var fields struct {
		DrainTimeout json.RawMessage `json:"drainTimeout"`
		HealthProbe  *struct {
			ServiceName string `json:"serviceName"`
		} `json:"healthProbe"`
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
	if b.Parse != nil {
		var err error
		if c.strategy, err = b.Parse(js); err != nil {
			return nil, fmt.Errorf("%s%s: %w", Prefix, b.Name, err)
		}
	}
	return c, nil
}
