package balancer

import (
	"time"

	"google.golang.org/grpc/serviceconfig"
)

// Strategy chooses the endpoint of each call of one ClientConn, among those of the best
// rank. The policy does everything else: it connects, probes, ejects and re-admits.
//
// Pick, Done and Restored are called concurrently and must be fast; they must not block.
// All other methods, including those of the optional interfaces, are called one at a
// time.
type Strategy interface {
	// Pick returns one of fit. fit has at least one endpoint, is in the resolver's order,
	// may differ with every call, and must not be modified.
	Pick(call Call, fit []*Endpoint) *Endpoint
}

// Call describes a call to a Strategy.
type Call struct {
	Method string // full name
	Need   Need
	Conn   ConnClass
	Shape  string
}

// Result is the result of an attempt.
type Result struct {
	Call
	Took time.Duration
	// Err is the attempt's error, nil for success.
	Err error
	// Answered is set if the server answered, even with an error.
	Answered bool
	// Failed is set if the server or the network is at fault, not the request or a caller
	// that gave up.
	Failed bool
}

// Learner is implemented by strategies that learn from results. Done is called once for
// each attempt that was sent to an endpoint, or failed there before it was sent.
type Learner interface {
	Done(ep *Endpoint, r Result)
}

// Restorer is implemented by strategies that remember failures of endpoints. Restored is
// called when an endpoint that was suspected, slow or ejected serves again: the results of
// calls that began before no longer apply.
type Restorer interface {
	Restored(ep *Endpoint)
}

// Selective is implemented by strategies that do not want a connection to every endpoint.
type Selective interface {
	// Wanted returns the endpoints, out of all, that are to be connected. It is called
	// whenever the endpoints, or the state or connection of one, change. Endpoints that
	// are no longer wanted are disconnected gracefully; those that are suspected, once probes
	// have ended that.
	Wanted(all []*Endpoint) []*Endpoint
}

// RoleAware is implemented by strategies that need the roles of endpoints. The policy
// then requests an endpoint's status when it connects and when roles may have changed.
type RoleAware interface {
	RoleAware()
}

// Builder makes the strategies of one kind.
type Builder struct {
	// Name under which service configs select the strategy, with [Prefix] before it.
	Name string
	// Build returns a strategy for one ClientConn. It is called again when the strategy's own
	// fields of the service config change.
	Build func(serviceconfig.LoadBalancingConfig) Strategy
	// Parse reads the strategy's own fields of the service config, a JSON object that
	// also holds the policy's fields; nil if there are none.
	Parse func(json []byte) (serviceconfig.LoadBalancingConfig, error)
}

// Attacher is implemented by strategies that keep a value for each endpoint. The value
// lives as long as the endpoint, across reconnections and changes of the strategy's fields in
// the service config.
type Attacher interface {
	Attach(ep *Endpoint) any // what Endpoint.Memory returns
}
