package clientv3

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/clientv3/internal/lease"
)

// ErrLeaseUnanswered reports that a KeepAlive ended because its lease may have
// expired: the TTL has passed since the last answered request. It is wrapped,
// together with the error of the latest stream if that failed.
var ErrLeaseUnanswered = lease.ErrUnanswered

// LeaseMonitor reports the state of a KeepAlive's lease, see [WithLeaseMonitor].
// The zero value is ready to use. It serves one KeepAlive at a time, and is safe
// for concurrent use.
type LeaseMonitor struct {
	state atomic.Pointer[leaseState] // replaced by the KeepAlive, nil before the first
}

// leaseState is what a KeepAlive knows of its lease.
type leaseState struct {
	renewed time.Time
	ttl     time.Duration
	ended   error
}

func (m *LeaseMonitor) now() leaseState { return *cmp.Or(m.state.Load(), new(leaseState)) }

// LastRenewal returns the send time of the latest request whose response showed
// that the lease is alive. Before the first keepalive response it is the send time
// of the grant, if this service granted the lease, and otherwise zero.
func (m *LeaseMonitor) LastRenewal() time.Time { return m.now().renewed }

// Deadline returns until when the lease lives unless it is revoked: LastRenewal
// plus the TTL in the response. The leader counts from a later moment, after the
// request was sent, so it does not end the lease earlier. Deadline is zero if
// LastRenewal is.
//
// Two kinds of servers may end the lease earlier, because they answer without the
// leader. In etcd before 3.5.13 a replaced leader that does not know it yet
// confirms a renewal that its successor has not seen. etcd's grpc-proxy answers
// with the result of its own renewal, which it may have sent before the request
// arrived.
//
// The time is on the monotonic clock, which on most systems stops while the machine
// is suspended: after a suspend the lease may have expired before its Deadline.
func (m *LeaseMonitor) Deadline() time.Time {
	s := m.now()
	if s.renewed.IsZero() {
		return s.renewed
	}
	return s.renewed.Add(s.ttl)
}

// Err returns nil while the lease is kept alive, and after the channel is closed
// the reason:
//
//   - rpctypes.ErrLeaseNotFound: the lease does not exist according to the server,
//     or this service has revoked it;
//   - [ErrLeaseUnanswered], wrapped: the Deadline has passed without a response, or
//     the first response did not arrive in time;
//   - rpctypes.ErrNoLeader, for a context made by [WithRequireLeader];
//   - the error of the context;
//   - [ErrKeepAliveHalted]: the Lease or its client was closed.
func (m *LeaseMonitor) Err() error { return m.now().ended }

func (m *LeaseMonitor) set(s leaseState) { m.state.Store(&s) }

type leaseMonitorKey struct{}

// WithLeaseMonitor returns a context whose KeepAlive reports to m until when the lease
// lives, see [LeaseMonitor.Deadline], and why the channel was closed.
func WithLeaseMonitor(ctx context.Context, m *LeaseMonitor) context.Context {
	return context.WithValue(ctx, leaseMonitorKey{}, m)
}

// leaseMonitorOf returns the monitor of a context, and a new one if it has none.
func leaseMonitorOf(ctx context.Context) *LeaseMonitor {
	m, _ := ctx.Value(leaseMonitorKey{}).(*LeaseMonitor)
	return cmp.Or(m, new(LeaseMonitor))
}
