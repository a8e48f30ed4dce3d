// Package pinned is the strategy "pinned": all calls go to one endpoint until there is a
// [Reason] to change it. A client then sees the state of one server only, servers have
// few connections, or few busy ones, and server-side caches for the client stay useful.
//
// It has two forms, after the two generations of etcd's client that worked like this:
//
//		{"loadBalancingConfig": [{"quorate_pinned": {"form": "race"}}]}
//
//	  - "race", the default, like clientv3-grpc1.7: it races to connect to all endpoints,
//	    keeps the first that is connected and fit, and drops the others. One connection,
//	    and all of them for as long as a race lasts. A change of endpoint costs the time
//	    that it takes to connect. A connection that is lost, or that its server closes,
//	    is made again; the race begins if that fails or takes 0.25 s.
//	  - "first_of_all", as clientv3-grpc1.0: it stays connected to all endpoints and uses
//	    the first that was fit. A change of endpoint costs nothing.
//
// [Pin] reports the [Reason] of the latest change. An unpinned endpoint can be pinned
// again as soon as the policy finds it fit: there is no list of bad endpoints and no
// penalty time. The pin does not return to an endpoint just because it has recovered.
//
// Streams stay on the endpoint on which they were opened, until they end or it can no
// longer serve them.
//
// An endpoint of a worse priority ([balancer.SetPriority]) wins a race only if no better one can.
// With "first_of_all" the pin moves to an endpoint of a better priority as soon as one is fit.
//
// A partly usable endpoint, such as a member without a leader, which serves serializable
// reads, is used for such calls until another one is pinned.
//
// Do not use it where load matters: one endpoint carries all calls of a client, and a
// restarted endpoint gets no clients back until another one fails. For few clients with
// many calls each, use round_robin or p2c. With "race" the policy has no second endpoint
// to compare with or to hedge to: it detects faults by silence and probes alone.
package pinned

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/balancer"
)

// Form is one of the two ways to pin an endpoint.
type Form string

const (
	// Race connects to all, keeps the first, and drops the others. It is the default.
	Race Form = "race"
	// FirstOfAll stays connected to all and uses one.
	FirstOfAll Form = "first_of_all"
)

// Config is the strategy's part of a service config.
type Config struct {
	serviceconfig.LoadBalancingConfig `json:"-"`

	// Form is Race if empty.
	Form Form `json:"form"`
}

// Pin is implemented by the strategies that Builder builds.
type Pin interface {
	balancer.Strategy
	// Pinned returns the endpoint that is in use, nil if none is.
	Pinned() *balancer.Endpoint
	// LastUnpin returns the endpoint that was unpinned last, why, and when; nil, None and
	// the zero time if there is none.
	LastUnpin() (ep *balancer.Endpoint, reason Reason, at time.Time)
}

// Builder builds the strategy "pinned", in the form given by its [Config].
var Builder = balancer.Builder{Name: "pinned", Build: build, Parse: parse}

var (
	_ Pin                = (*firstOfAll)(nil)
	_ Pin                = (*race)(nil)
	_ balancer.Selective = (*race)(nil)
)

func build(config serviceconfig.LoadBalancingConfig) balancer.Strategy {
	if c, ok := config.(*Config); ok && c.Form == FirstOfAll {
		return &firstOfAll{pin{env: realEnv}}
	}
	return &race{pin: pin{env: realEnv}}
}

// parse reads the strategy's part of a service config. It ignores other fields, which
// belong to the policy.
func parse(js []byte) (serviceconfig.LoadBalancingConfig, error) {
	c := &Config{Form: Race}
	if err := json.Unmarshal(js, c); err != nil {
		return nil, err
	}
	switch c.Form {
	case Race, FirstOfAll:
		return c, nil
	case "":
		c.Form = Race
		return c, nil
	default:
		return nil, fmt.Errorf("form must be %q or %q; it is %q", Race, FirstOfAll, c.Form)
	}
}
