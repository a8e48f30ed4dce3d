package balancer

import (
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

// DefaultWriteStallTimeout is the default of [Options.WriteStallTimeout]: twice the time
// of an election with etcd's defaults, and longer than transient disk stalls.
const DefaultWriteStallTimeout = 2 * time.Second

// Options configures the policy of a ClientConn with values that a service config cannot
// hold. A resolver attaches it with [WithOptions]. All fields are optional.
type Options struct {
	// Table holds the health of the endpoints. Default: a table of the policy's own.
	Table *health.Table
	// Shared, if set, is a table that several ClientConns use: see [health.Table]. An
	// endpoint moves there with its first connection, under the key that ShareKey returns
	// for its first address, and stays in Table if that is "". A ClientConn that does not
	// probe, for want of a prober or of a second endpoint, uses Table only. ShareKey must return the
	// same key for two ClientConns only if the same server is at the other end, and was
	// authenticated in the same way.
	Shared   *health.Table
	ShareKey func(resolver.Address) string

	// Service probes whether an endpoint does its work. Default: the probe of the service
	// config. Without a probe, other endpoints are preferred while an endpoint is silent,
	// and silence ejects nothing.
	Service health.Prober
	// Liveness probes for a sign of life. Default: Service.
	Liveness health.Prober
	// Status requests an endpoint's role. It is used for strategies that are [RoleAware]
	// and for quiet streams. Default: Liveness.
	Status health.Prober

	// Classify maps a server's error to evidence: Degrading, Restricting, Refusing, or
	// Suspicious; ok is false if the error is no evidence. Default: no single error is evidence, and
	// endpoints are ejected by the share of their calls that fail or are late: see the package.
	Classify func(err error) (kind health.Kind, ok bool)
	// Fault reports whether an error is the server's or the network's fault. Default: true
	// for Unavailable, Internal, Unknown, DataLoss, ResourceExhausted and DeadlineExceeded.
	Fault func(err error) bool

	// WriteStallTimeout is how long an endpoint that is alive must have completed nothing,
	// while others did, before its in-flight writes are cut ([Attempt.Write]). It also sets when
	// writes are cut that were lost with their leader ([Endpoint.ServedInTerm]). Default:
	// DefaultWriteStallTimeout; negative: never.
	WriteStallTimeout time.Duration

	// DisableSuspicion ignores silence, with or without probes.
	DisableSuspicion bool

	// maxEjectionPercent is that of the service config, or maxLatePercent.
	maxEjectionPercent int

	// Monitor, if set, shows the endpoints to the owner of the ClientConn.
	Monitor *Monitor
	// Events, if set, receives the policy's events.
	Events        Events
	observesCalls bool // Events does not ignore them
}

// Events receives the policy's events. Its methods are called concurrently and must not
// block. If it has a method IgnoresCalls() bool that always returns true, Picked and Ended are not
// called; a type that embeds such a one has the method too.
type Events interface {
	// Picked is called for each pick that returns an endpoint.
	Picked(ep *Endpoint, call Call)
	// Ended is called when a picked call or stream ends, with the error that gRPC reports, or
	// Unavailable if nothing was sent.
	Ended(ep *Endpoint, call Call, took time.Duration, err error)
	// Changed is called after each change of an endpoint's state, in order for each
	// endpoint.
	Changed(ep *Endpoint, change health.Change)
	// Closed is called when the connections of an endpoint are closed under the calls and
	// streams on them, with the reason.
	Closed(ep *Endpoint, reason error)
}

type optionsKey struct{}

// String names the attribute in gRPC's log.
func (optionsKey) String() string { return "quorate.options" }

// WithOptions returns the state with options for the policy.
func WithOptions(state resolver.State, o *Options) resolver.State {
	state.Attributes = state.Attributes.WithValue(optionsKey{}, o)
	return state
}

// OptionsOf returns the options that a state has, the zero Options if it has none.
func OptionsOf(state resolver.State) Options {
	if o, ok := state.Attributes.Value(optionsKey{}).(*Options); ok && o != nil {
		return *o
	}
	return Options{}
}

// withDefaults returns the options with their defaults.
func (o Options) withDefaults() *Options {
	if o.Table == nil {
		o.Table = health.NewTable()
	}
	if o.Liveness == nil {
		o.Liveness = o.Service
	}
	if o.Status == nil {
		o.Status = o.Liveness
	}
	if !o.errorsEject() {
		o.maxEjectionPercent = maxLatePercent
	}
	if o.Fault == nil {
		o.Fault = isFault
	}
	if o.WriteStallTimeout == 0 {
		o.WriteStallTimeout = DefaultWriteStallTimeout
	}
	if o.Monitor == nil {
		o.Monitor = new(Monitor)
	}
	if o.Events == nil {
		o.Events = noEvents{}
	}
	ignores, ok := o.Events.(interface{ IgnoresCalls() bool })
	o.observesCalls = !ok || !ignores.IgnoresCalls()
	return &o
}

func isFault(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Internal, codes.Unknown, codes.DataLoss, codes.ResourceExhausted, codes.DeadlineExceeded:
		return true
	default:
		return false
	}
}

type noEvents struct{}

func (noEvents) IgnoresCalls() bool                          { return true }
func (noEvents) Picked(*Endpoint, Call)                      {}
func (noEvents) Ended(*Endpoint, Call, time.Duration, error) {}
func (noEvents) Changed(*Endpoint, health.Change)            {}
func (noEvents) Closed(*Endpoint, error)                     {}

// Monitor gives the owner of a ClientConn access to its endpoints. Pass it to the policy
// in [Options]. The zero value is ready to use, for one ClientConn.
type Monitor struct {
	endpoints atomic.Pointer[[]*Endpoint]
	probes    atomic.Uint64 // that were sent, by all policies of the ClientConn

	mu       sync.Mutex
	improved chan struct{} // nil while there is no waiter
}

// Endpoints returns the endpoints in the resolver's order. The caller must not modify the
// slice.
func (m *Monitor) Endpoints() []*Endpoint {
	if eps := m.endpoints.Load(); eps != nil {
		return *eps
	}
	return nil
}

// Improved returns a channel that is closed when an endpoint is connected or its state
// improves. Retries that wait for an endpoint wake up on it.
//
// Get the channel before checking the endpoints, so that no improvement is missed.
func (m *Monitor) Improved() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.improved == nil {
		m.improved = make(chan struct{})
	}
	return m.improved
}

// SetEndpoints replaces the endpoints. The policy calls it; tests that stand in for one may.
func (m *Monitor) SetEndpoints(eps []*Endpoint) { m.endpoints.Store(&eps) }

// forget removes the endpoints if they are those of the policy. A policy that was replaced is
// closed after its successor has set its own.
func (m *Monitor) forget(p *policy) {
	if eps := m.endpoints.Load(); eps != nil && len(*eps) > 0 && (*eps)[0].policy == p {
		m.endpoints.CompareAndSwap(eps, nil)
	}
}

// NotifyImproved closes the channels of Improved. The policy calls it; tests that stand in
// for one may.
func (m *Monitor) NotifyImproved() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.improved != nil {
		close(m.improved)
		m.improved = nil
	}
}
