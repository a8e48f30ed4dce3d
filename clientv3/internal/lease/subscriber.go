package lease

import (
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// ErrUnanswered reports that a lease may have expired: its TTL has passed without
// an answered renewal.
var ErrUnanswered = errors.New("etcdclient: the lease was not renewed in time")

// Sink receives the events of a lease. Its methods are called in order, by one
// goroutine at a time. They must not block or call back.
type Sink interface {
	// Valid is called when the lease is known to live, before Deliver: it lives at
	// least ttl from renewed on, unless it is revoked or the answer did not come
	// from the leader.
	Valid(renewed time.Time, ttl time.Duration)
	// Deliver is called with each answer.
	Deliver(resp *pb.LeaseKeepAliveResponse)
	// Close is called once, as the last method, with the reason. For a Once
	// subscriber the cause is nil if the lease lives.
	Close(cause error)
}

// Subscriber keeps a lease alive, or renews it once. It is for one call of
// [Engine.Subscribe].
type Subscriber struct {
	// Sink receives the events.
	Sink Sink
	// Once ends the subscription with the answer to the first request sent after it
	// began. TTL 0 is delivered too.
	Once bool
	// RequireLeader ends the subscription when no endpoint knows a leader.
	RequireLeader bool

	lease *entry      // nil when the subscription has ended
	from  uint64      // the first request whose answer is for it
	stop  func() bool // stops listening to its context
}

// wants reports whether the answer to the latest request of l is for s.
func (s *Subscriber) wants(l *entry) bool { return s.from <= l.request }

func (s *Subscriber) end(cause error) {
	s.lease = nil
	if s.stop != nil {
		s.stop()
	}
	s.Sink.Close(cause)
}

// unanswered returns ErrUnanswered, wrapped together with last, the error of the
// latest stream.
func unanswered(last error) error {
	if last == nil {
		return ErrUnanswered
	}
	return fmt.Errorf("%w: %w", ErrUnanswered, rpctypes.Error(last))
}
