package clientv3

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/clientv3/internal/lease"
)

// ErrLeaseUnanswered is why a KeepAlive ended whose lease may have ended: its TTL
// has passed since the last request that was answered. It is wrapped, together
// with the error of the latest stream if that failed.
var ErrLeaseUnanswered = lease.ErrUnanswered

// LeaseMonitor tells what a KeepAlive knows of its lease, see [WithLeaseMonitor].
// The zero value is ready to use. It serves one KeepAlive at a time, and is safe
// for concurrent use.
type LeaseMonitor struct {
	mu      sync.Mutex
	renewed time.Time
	ttl     time.Duration
	ended   error
}

// LastRenewal returns when the request was sent whose answer last showed the
// lease to be alive. Until the first answer that is the request which granted the
// lease, if it was this service that granted it, and otherwise the zero time.
func (m *LeaseMonitor) LastRenewal() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.renewed
}

// Deadline returns until when the lease lives, unless somebody revokes it:
// LastRenewal plus the TTL that was answered. A leader counts from a moment after
// the request was sent, and so does not end the lease earlier. It is the zero time
// if LastRenewal is.
//
// Two kinds of servers may end it earlier, because they answer without the leader.
// In etcd before 3.5.13 a leader that was replaced and does not know it yet answers
// for a renewal that its successor has not seen. etcd's grpc-proxy answers with a
// renewal of its own, which it may have sent before the request arrived.
//
// The time is one of the monotonic clock, which on most systems stands still while
// the machine is suspended: after that a lease may have ended before its Deadline.
func (m *LeaseMonitor) Deadline() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.renewed.IsZero() {
		return m.renewed
	}
	return m.renewed.Add(m.ttl)
}

// Err returns nil while the lease is kept alive, and when the channel is closed
// the reason:
//
//   - rpctypes.ErrLeaseNotFound: the server says that the lease does not exist, or
//     this service has revoked it;
//   - [ErrLeaseUnanswered], wrapped: the Deadline has passed without an answer, or
//     the first answer did not come in time;
//   - rpctypes.ErrNoLeader, for a context made by [WithRequireLeader];
//   - the error of the context;
//   - [ErrKeepAliveHalted]: the Lease or its client was closed.
func (m *LeaseMonitor) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

// begin forgets an earlier KeepAlive.
func (m *LeaseMonitor) begin() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renewed, m.ttl, m.ended = time.Time{}, 0, nil
}

func (m *LeaseMonitor) valid(renewed time.Time, ttl time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renewed, m.ttl = renewed, ttl
}

func (m *LeaseMonitor) end(cause error) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = cause
}

type leaseMonitorKey struct{}

// WithLeaseMonitor returns a context whose KeepAlive reports to m: until when the
// lease lives, see [LeaseMonitor.Deadline], and after the channel is closed why it was.
func WithLeaseMonitor(ctx context.Context, m *LeaseMonitor) context.Context {
	return context.WithValue(ctx, leaseMonitorKey{}, m)
}

// leaseMonitorOf returns the monitor of a context, nil if there is none.
func leaseMonitorOf(ctx context.Context) *LeaseMonitor {
	m, _ := ctx.Value(leaseMonitorKey{}).(*LeaseMonitor)
	return m
}
