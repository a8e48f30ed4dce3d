package lease

import (
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// ErrUnanswered is why a lease is given up that may have ended: its time has
// passed, and no answer has come that would have prolonged it.
var ErrUnanswered = errors.New("etcdclient: the lease was not renewed in time")

// Sink is told what becomes of a lease. Its methods are called in order, by one
// goroutine at a time. They must not block, nor call back.
type Sink interface {
	// Valid is called when it is known that the lease lives, before the answer
	// that shows it is delivered: it lasts at least ttl from renewed on, unless
	// it is revoked, or the answer was not the leader's.
	Valid(renewed time.Time, ttl time.Duration)
	// Deliver is called with each answer.
	Deliver(resp *pb.LeaseKeepAliveResponse)
	// Close is called once, at last, with the reason why there will be no more.
	// For a Subscriber that wants one answer it is nil if the lease lives.
	Close(cause error)
}

// Subscriber is one who wants a lease to be kept alive, or renewed once. It is
// for one call of [Engine.Subscribe].
type Subscriber struct {
	// Sink is told what happens.
	Sink Sink
	// Once ends the subscription with the answer to the first request that is
	// sent after it began. TTL 0 is delivered too.
	Once bool
	// RequireLeader ends the subscription when no endpoint knows a leader.
	RequireLeader bool

	lease *entry      // nil when the subscription has ended
	from  uint64      // the first request whose answer is meant for it
	stop  func() bool // takes it off its context
}

// wants reports whether the answer to the latest request of l is meant for s.
func (s *Subscriber) wants(l *entry) bool { return s.from <= l.request }

// end tells the subscriber that it is over.
func (s *Subscriber) end(cause error) {
	s.lease = nil
	if s.stop != nil {
		s.stop()
	}
	s.Sink.Close(cause)
}

// unanswered makes the reason for giving up a lease; last is what the latest
// stream failed with.
func unanswered(last error) error {
	if last == nil {
		return ErrUnanswered
	}
	return fmt.Errorf("%w: %w", ErrUnanswered, rpctypes.Error(last))
}
