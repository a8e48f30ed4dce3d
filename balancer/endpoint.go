package balancer

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer/internal/probe"
	"github.com/quorate/quorate/health"
)

// Endpoint is one endpoint of a ClientConn. It exists across reconnections, until the
// resolver no longer lists it and its streams have ended.
type Endpoint struct {
	address   string
	addresses []resolver.Address
	memory    any
	policy    *policy // nil if detached
	conns     [classes]atomic.Pointer[subConn]

	// usable are the connections that pickers use, nil for none. place is the endpoint's index
	// among the connected ones. Both belong to the latest picker.
	usable [classes]atomic.Pointer[usable]
	place  atomic.Int64

	// entry is the health of the endpoint. It is replaced once, when the endpoint joins
	// the shared table. unsubscribe belongs to it and is guarded by the policy's lock.
	entry       atomic.Pointer[health.Entry]
	unsubscribe func()
	joined      atomic.Bool

	// lifetime ends when the endpoint is removed. An endpoint that returns while it drains gets a
	// new one.
	lifetime atomic.Pointer[lifetime]
	// refuses is set while the endpoint says by gRPC's health check that it does not serve.
	refuses atomic.Bool

	// unwanted is set if the strategy wants no connection to the endpoint.
	unwanted atomic.Bool
	weight   atomic.Uint32 // 0 for the default
	priority atomic.Uint32

	running  atomic.Int64 // calls in flight
	latency  latencies
	inflight inflight

	lateCalls, failedCalls tally
	retest                 retest

	probing atomic.Bool   // an investigation runs; there is one at a time
	wake    chan struct{} // buffered, one signal: new evidence has arrived
	// serviceProbeSent is when the oldest unanswered service probe was sent.
	serviceProbeSent atomic.Pointer[time.Time]
	late             atomic.Pointer[time.Time] // when the latest service probe was answered, nil if it was in time
	term             atomic.Uint64             // the latest Raft term in which it completed work, see ServedInTerm
}

func newEndpoint(address string, entry *health.Entry) *Endpoint {
	ep := &Endpoint{address: address, wake: make(chan struct{}, 1)}
	ep.lifetime.Store(&lifetime{context.Background(), func() {}})
	ep.entry.Store(entry)
	return ep
}

// lifetime is the time for which the resolver lists an endpoint.
type lifetime struct {
	context.Context
	end context.CancelFunc
}

// list begins a lifetime of the endpoint.
func (e *Endpoint) list(parent context.Context) {
	ctx, end := context.WithCancel(parent)
	e.lifetime.Store(&lifetime{ctx, end})
}

// Detached returns an endpoint that belongs to no ClientConn, for tests of strategies. Its health is
// that of entry, or its own if entry is nil. memory is its [Endpoint.Memory].
func Detached(address string, entry *health.Entry, memory any) *Endpoint {
	if entry == nil {
		entry = health.NewTable().Acquire("", address)
	}
	ep := newEndpoint(address, entry)
	ep.memory = memory
	return ep
}

// Address returns the endpoint's address as the resolver gave it; the first one if it has
// several.
func (e *Endpoint) Address() string { return e.address }

// Health returns the health of the endpoint.
func (e *Endpoint) Health() *health.Status {
	s := e.healthEntry().Load()
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
	return e.healthEntry().Load().State
}

func (e *Endpoint) healthEntry() *health.Entry { return e.entry.Load() }

// conn returns the connection of a class, nil if the endpoint is detached.
func (e *Endpoint) conn(class ConnClass) *subConn { return e.conns[class].Load() }

// connections returns the connections by class.
func (e *Endpoint) connections() (all [classes]*subConn) {
	for class := range e.conns {
		all[class] = e.conns[class].Load()
	}
	return all
}

// InFlight returns how many calls to the endpoint are in flight, streams not included.
func (e *Endpoint) InFlight() int { return int(e.running.Load()) }

// AddInFlight counts calls in flight to a detached endpoint, as the policy does for others.
func (e *Endpoint) AddInFlight(n int) { e.running.Add(int64(n)) }

// Memory returns the value that the strategy attached to the endpoint ([Attacher]), nil
// if there is none.
func (e *Endpoint) Memory() any { return e.memory }

// Ready reports whether there is a connection for calls. A detached endpoint is ready.
func (e *Endpoint) Ready() bool { return e.policy == nil || e.conn(Calls).ready.Load() }

// Unreachable reports whether the last attempt to connect failed.
func (e *Endpoint) Unreachable() bool { return e.policy != nil && e.conn(Calls).failing.Load() }

// Siblings returns all endpoints of the ClientConn, including this one, or none after the ClientConn was closed. For an
// [Attacher] they are those of the list before. The caller must not modify the slice.
func (e *Endpoint) Siblings() []*Endpoint {
	if e.policy == nil {
		return []*Endpoint{e}
	}
	return e.policy.all()
}

// Removed returns a channel that is closed when the resolver no longer lists the
// endpoint. In-flight calls and streams may continue until the drain timeout; long
// streams should move. An endpoint that is listed again before that has a new
// channel.
func (e *Endpoint) Removed() <-chan struct{} { return e.lifetime.Load().Done() }

// usualLatency returns the endpoint's usual latency, 0 if it has completed nothing yet.
func (e *Endpoint) usualLatency() time.Duration {
	return max(e.healthEntry().Latency(), e.healthEntry().Latest())
}

// tolerance returns how much longer the endpoint's responses may take than those of others.
func (e *Endpoint) tolerance() time.Duration { return probe.Tolerance(e.usualLatency(), 0) }

func (e *Endpoint) removed() bool { return e.lifetime.Load().Err() != nil }

// CompletedSince reports whether the endpoint has completed work that began at t or later.
func (e *Endpoint) CompletedSince(t time.Time) bool { return e.healthEntry().CompletedSince(t) }

// RolesChanged reports to the policy that roles may have changed, for example after a
// reply with a later term. If the strategy is [RoleAware], the policy requests the status
// of the endpoints. A nil or detached endpoint is valid.
func (e *Endpoint) RolesChanged() {
	if e != nil && e.policy != nil {
		e.policy.prober.askRoles()
	}
}

// maxOthers bounds how many others an endpoint is compared with, so that the cost of
// comparing all endpoints grows with their number and not with its square.
const maxOthers = 100

// others returns other endpoints of the ClientConn that are connected: all, or the maxOthers
// that follow in the resolver's order.
func (e *Endpoint) others() []*Endpoint {
	k := e.policy.latest.Load()
	if k == nil {
		return nil
	}
	others := make([]*Endpoint, 0, min(len(k.connected), maxOthers))
	for i := range k.connected {
		other := k.connected[(int(e.place.Load())+i)%len(k.connected)]
		if other != e && other.Ready() {
			others = append(others, other)
		}
		if len(others) == maxOthers {
			break
		}
	}
	return others
}

// hasAlternative reports whether another endpoint can take calls of the need that would go to e:
// one of a better rank, or one that is not suspected. Where all are suspected, as in an overload,
// none is likely to be faster.
func (e *Endpoint) hasAlternative(n Need) bool {
	k, as := e.policy.latest.Load(), needFull
	if n == Local {
		as = needLocal
	}
	if k == nil || len(k.fit[as]) == 0 {
		return false
	}
	other := k.fit[as][0]
	switch {
	case other != e:
	case len(k.fit[as]) > 1:
		other = k.fit[as][1]
	default:
		other = k.spare[as]
	}
	if other == nil || !other.Ready() {
		return false
	}
	r, suspected := other.rank(as), rank(health.Suspected, as)
	return r < suspected || r == suspected && r < e.rank(as)
}

// isWitness reports whether the endpoint has completed work that began at since or later,
// and is neither ejected nor suspected.
func (e *Endpoint) isWitness(since time.Time) bool {
	return e.State().Usable() && e.healthEntry().CompletedSince(since)
}
