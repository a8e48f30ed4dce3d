package balancer

import (
	"time"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

// DefaultWriteStallTimeout is that of [Options.WriteStallTimeout]: twice the time that an
// election takes by etcd's defaults, and longer than the stalls of a disk that recovers.
const DefaultWriteStallTimeout = 2 * time.Second

// Options are what a resolver gives to the policy of its ClientConn in code, because no
// service config can say it. All fields may be left out.
type Options struct {
	// Table holds what is known of the endpoints. Default: a table of the policy's own.
	Table *health.Table
	// Shared, if set, is a table that several ClientConns use: see [health.Table]. An
	// endpoint moves there with its first connection, under the key that ShareKey returns
	// for its first address, and stays in Table if that is "". ShareKey must return the
	// same key for two ClientConns only if the same server is at the other end, and was
	// authenticated in the same way.
	Shared   *health.Table
	ShareKey func(resolver.Address) string

	// Service asks whether an endpoint does its work. Default: the probe of the service
	// config. Without one, silence makes other endpoints preferred for as long as it lasts,
	// and nothing is ejected for it.
	Service health.Prober
	// Liveness asks for a sign of life. Default: Service.
	Liveness health.Prober
	// Status asks an endpoint what it is; it is used where a strategy wants to know (see
	// [RoleAware]) and for streams that are quiet. Default: Liveness.
	Status health.Prober

	// Classify says what an error of a server shows of it: Degrading, Restricting,
	// Refusing, or Suspicious; ok is false if it shows nothing. Default: nothing.
	Classify func(err error) (kind health.Kind, ok bool)
	// Fault reports whether an error is the server's or the network's fault. Default:
	// Unavailable, Internal, Unknown, DataLoss, ResourceExhausted and DeadlineExceeded are.
	Fault func(err error) bool

	// WriteStallTimeout is how long an endpoint that is alive must have completed nothing,
	// while others did, before the writes in flight to it are cut ([Attempt.Write]). Default:
	// DefaultWriteStallTimeout; negative: never.
	WriteStallTimeout time.Duration

	// DisableSuspicion has silence count for nothing, whether or not there are probes.
	DisableSuspicion bool

	// Monitor, if set, shows the endpoints to the owner of the ClientConn.
	Monitor *Monitor
	// Events is told what the policy does. Default: nobody is.
	Events Events
}

// Events is told what the policy does. Its methods are called concurrently and must not
// block.
type Events interface {
	// Picked is called for each attempt of a call that was given an endpoint.
	Picked(ep *Endpoint, call Call)
	// Ended is called when an attempt that was given an endpoint has ended, be it a call or a
	// stream, with what gRPC reports of it.
	Ended(ep *Endpoint, call Call, took time.Duration, err error)
	// Changed is called after each change of an endpoint's state, in the order in which
	// they happen to one endpoint.
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
	if o.Classify == nil {
		o.Classify = func(error) (health.Kind, bool) { return 0, false }
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

func (noEvents) Picked(*Endpoint, Call)                      {}
func (noEvents) Ended(*Endpoint, Call, time.Duration, error) {}
func (noEvents) Changed(*Endpoint, health.Change)            {}
func (noEvents) Closed(*Endpoint, error)                     {}
