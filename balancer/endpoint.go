package balancer

import (
	"context"
	"sync"
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
	entry     *health.Entry
	memory    any
	policy    *policy // nil if detached
	lines     [lanes]*line
	ctx       context.Context // ends when the endpoint is gone
	leave     context.CancelFunc

	// unwanted says that the strategy wants no connection to the endpoint.
	unwanted atomic.Bool
	weight   atomic.Uint32 // 0 for the default
	noting   sync.Mutex    // keeps events in the order of the changes

	inFlight atomic.Int64
	took     smoothed     // of the calls that were answered
	served   atomic.Int64 // when it last did its work, in nanoseconds since the epoch
	gauges   gauges

	traffic traffic
	probing atomic.Bool // an inquiry is under way, of which there is one at a time
	// resetIn is when the state began in which the connections were closed last. It
	// belongs to the inquiry.
	resetIn time.Time
}

// Detached returns an endpoint that belongs to no ClientConn, for tests of strategies.
func Detached(address string, entry *health.Entry) *Endpoint {
	return &Endpoint{address: address, entry: entry, ctx: context.Background(), leave: func() {}}
}

// Address is the endpoint's, as the resolver gave it; the first one if it has several.
func (e *Endpoint) Address() string { return e.address }

// Health returns what is known of the endpoint.
func (e *Endpoint) Health() *health.Status { return e.entry.Load() }

// State returns the endpoint's state.
func (e *Endpoint) State() health.State { return e.entry.Load().State }

// InFlight returns how many calls to the endpoint are under way, streams not included.
func (e *Endpoint) InFlight() int { return int(e.inFlight.Load()) }

// Start and Finish count a call to a detached endpoint, as the policy does for others.
func (e *Endpoint) Start() { e.inFlight.Add(1) }

// Finish ends what Start began.
func (e *Endpoint) Finish() { e.inFlight.Add(-1) }

// Memory returns what the strategy attached to the endpoint, nil if it attaches nothing.
func (e *Endpoint) Memory() any { return e.memory }

// Ready reports whether there is a connection for calls. A detached endpoint is ready.
func (e *Endpoint) Ready() bool { return e.policy == nil || e.lines[Calls].ready.Load() }

// Unreachable reports whether the last attempt to connect failed.
func (e *Endpoint) Unreachable() bool { return e.policy != nil && e.lines[Calls].failing.Load() }

// Siblings returns all endpoints of the ClientConn, this one included, and none if the
// ClientConn has closed. The slice must not be changed.
func (e *Endpoint) Siblings() []*Endpoint {
	if e.policy == nil {
		return []*Endpoint{e}
	}
	return e.policy.all()
}

// Gone returns a channel that is closed when the endpoint is no longer one of the
// ClientConn's. Calls and streams on it may go on, for a while, but should move.
func (e *Endpoint) Gone() <-chan struct{} { return e.ctx.Done() }

// servedSince reports whether the endpoint has done its work since t.
func (e *Endpoint) servedSince(t time.Time) bool { return e.served.Load() > t.UnixNano() }

// smoothed is an exponentially weighted mean of durations, each new one with a tenth.
type smoothed struct{ nanos atomic.Int64 }

func (s *smoothed) observe(d time.Duration) {
	old := s.nanos.Load()
	if old == 0 {
		s.nanos.Store(max(int64(d), 1))
		return
	}
	s.nanos.Store(old + (int64(d)-old)/10) // a lost update is one sample less
}

func (s *smoothed) value() time.Duration { return time.Duration(s.nanos.Load()) }
