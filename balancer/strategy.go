package balancer

import (
	"time"

	"google.golang.org/grpc/serviceconfig"
)

// Strategy chooses the endpoint of each call of one ClientConn, among those that the
// policy found fit. The policy does everything else: it connects, watches, probes,
// ejects and re-admits.
//
// Pick, Done and Restored are called concurrently and must be fast; they must not block.
// All other methods, of the optional interfaces as well, are called one at a time.
type Strategy interface {
	// Pick returns one of fit, which holds at least one endpoint, in the order in which
	// the resolver gave them, and must not be changed. It may differ with every call.
	Pick(call Call, fit []*Endpoint) *Endpoint
}

// Call is what a Strategy knows of a call.
type Call struct {
	Method string // full name
	Need   Need
	Conn   ConnClass
	Shape  string
}

// Result is how an attempt of a call ended.
type Result struct {
	Call
	Took time.Duration
	// Err is the attempt's, nil for success.
	Err error
	// Answered says that the server answered, be it with an error.
	Answered bool
	// Failed says that the error is the server's or the network's fault, and not that of
	// the request or of the caller who gave up.
	Failed bool
}

// Learner is implemented by strategies that learn from results. Done is called once for
// each attempt that left for the endpoint that Pick chose for it.
type Learner interface {
	Done(ep *Endpoint, r Result)
}

// Forgiver is implemented by strategies that hold against endpoints what they have shown.
// Restored is called when an endpoint may be used again that was shown not
// to serve: what was learnt before says nothing of it now.
type Forgiver interface {
	Restored(ep *Endpoint)
}

// Selective is implemented by strategies that do not want a connection to every endpoint.
type Selective interface {
	// Wanted returns the endpoints that are to have a connection, out of all. It is asked
	// again whenever the set of endpoints or the state or connection of one has changed.
	// Endpoints that are no longer wanted are disconnected gracefully.
	Wanted(all []*Endpoint) []*Endpoint
}

// RoleAware is implemented by strategies that need to know who leads: endpoints are
// then asked for their role when they connect, and when there are signs that it changed.
type RoleAware interface {
	RoleAware()
}

// Builder makes the strategies of one kind.
type Builder struct {
	// Name under which service configs select the strategy, with [Prefix] before it.
	Name string
	// Build returns a strategy for one ClientConn.
	Build func(serviceconfig.LoadBalancingConfig) Strategy
	// Parse reads the strategy's own fields of the service config, a JSON object, which
	// holds those of the policy as well; nil if it has none.
	Parse func(json []byte) (serviceconfig.LoadBalancingConfig, error)
}

// Attacher is implemented by strategies that keep something for each endpoint. It is
// kept for as long as the endpoint is, whatever happens to its connections.
type Attacher interface {
	Attach(ep *Endpoint) any // what Endpoint.Memory returns
}
