package balancer

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/health"
)

// Endpoint is one of a ClientConn's endpoints, through all its connections and
// reconnections. It lasts as long as the resolver names it.
type Endpoint struct {
	address   string
	addresses []resolver.Address
	memory    any
	policy    *policy // nil if detached
	conns     [classes]*subConn

	// entry is what is known of the endpoint. It is replaced once, when the endpoint joins
	// the shared table. unsubscribe belongs to it, and is guarded by the policy's lock.
	entry       atomic.Pointer[health.Entry]
	unsubscribe func()
	joined      bool

	ctx    context.Context // ends when the endpoint is removed
	remove context.CancelFunc

	// unwanted says that the strategy wants no connection to the endpoint.
	unwanted atomic.Bool
	weight   atomic.Uint32 // 0 for the default
	priority atomic.Uint32

	running  atomic.Int64 // calls in flight
	latency  latencies
	inflight inflight

	probing atomic.Bool   // an investigation runs, of which there is one at a time
	wake    chan struct{} // has room for one: something was learnt
	// serviceAsked is when the endpoint was first asked for service since it completed any.
	serviceAsked atomic.Pointer[time.Time]
	late         atomic.Bool // the latest probe for service was answered late
}

func newEndpoint(address string, entry *health.Entry) *Endpoint {
	ep := &Endpoint{address: address, ctx: context.Background(), remove: func() {}, wake: make(chan struct{}, 1)}
	ep.entry.Store(entry)
	return ep
}

// Detached returns an endpoint that belongs to no ClientConn, for tests of strategies.
func Detached(address string, entry *health.Entry) *Endpoint { return newEndpoint(address, entry) }

// Address is the endpoint's, as the resolver gave it; the first one if it has several.
func (e *Endpoint) Address() string { return e.address }

// Health returns what is known of the endpoint.
func (e *Endpoint) Health() *health.Status {
	s := e.known().Load()
	if e.removed() && s.State != health.Draining {
		drained := *s
		drained.State = health.Draining
		return &drained
	}
	return s
}

// State returns the endpoint's state.
func (e *Endpoint) State() health.State {
	if e.removed() {
		return health.Draining
	}
	return e.known().Load().State
}

func (e *Endpoint) known() *health.Entry { return e.entry.Load() }

// InFlight returns how many calls to the endpoint are in flight, streams not included.
func (e *Endpoint) InFlight() int { return int(e.running.Load()) }

// AddInFlight counts calls in flight to a detached endpoint, as the policy does for others.
func (e *Endpoint) AddInFlight(n int) { e.running.Add(int64(n)) }

// Memory returns what the strategy attached to the endpoint, nil if it attaches nothing.
func (e *Endpoint) Memory() any { return e.memory }

// Ready reports whether there is a connection for calls. A detached endpoint is ready.
func (e *Endpoint) Ready() bool { return e.policy == nil || e.conns[Calls].ready.Load() }

// Unreachable reports whether the last attempt to connect failed.
func (e *Endpoint) Unreachable() bool { return e.policy != nil && e.conns[Calls].failing.Load() }

// Siblings returns all endpoints of the ClientConn, this one included, and none if the
// ClientConn has closed. The slice must not be changed.
func (e *Endpoint) Siblings() []*Endpoint {
	if e.policy == nil {
		return []*Endpoint{e}
	}
	return e.policy.all()
}

// Removed returns a channel that is closed when the endpoint is no longer one of the
// ClientConn's. Calls and streams on it may go on, for a while, but should move.
func (e *Endpoint) Removed() <-chan struct{} { return e.ctx.Done() }

// usualLatency is how long the endpoint usually takes to complete work, 0 if it has not yet.
func (e *Endpoint) usualLatency() time.Duration {
	return max(e.known().Latency(), e.known().Latest())
}

// tolerance is how much longer than others an answer of the endpoint may take.
func (e *Endpoint) tolerance() time.Duration { return tolerance(e.usualLatency(), 0) }

func (e *Endpoint) removed() bool { return e.ctx.Err() != nil }

// CompletedSince reports whether the endpoint has completed work that began at t or later.
func (e *Endpoint) CompletedSince(t time.Time) bool { return e.known().CompletedSince(t) }

// RolesChanged tells the policy that there are signs of a change of roles, such as a reply
// of a later term: endpoints are asked for their status, if the strategy wants to know. It
// may be called for nil and for detached endpoints.
func (e *Endpoint) RolesChanged() {
	if e != nil && e.policy != nil {
		e.policy.askRoles()
	}
}

// others returns the other endpoints of the ClientConn that are connected.
func (e *Endpoint) others() []*Endpoint {
	var others []*Endpoint
	for _, other := range e.policy.all() {
		if other != e && other.Ready() {
			others = append(others, other)
		}
	}
	return others
}

// hasAlternative reports whether another endpoint can take calls that would go to e: one that
// is fitter, or no suspect. Where all are suspects, as in an overload, none is likely to be
// faster.
func (e *Endpoint) hasAlternative() bool {
	mine := rank(e.State(), needFull)
	for _, other := range e.others() {
		if r := rank(other.State(), needFull); other.State().Usable() && (r < mine || r < rank(health.Suspected, needFull)) {
			return true
		}
	}
	return false
}

// isWitness reports whether the endpoint has completed work since, and is in order.
func (e *Endpoint) isWitness(since time.Time) bool {
	return e.State().Usable() && e.known().CompletedSince(since)
}
