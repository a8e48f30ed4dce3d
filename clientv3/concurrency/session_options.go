package concurrency

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
)

// defaultTTL is the time in seconds that the lease of a session lasts without being
// renewed, the official client's default.
const defaultTTL = 60

type sessionOptions struct {
	ttl     int
	leaseID clientv3.LeaseID
	ctx     context.Context
}

// ttlDuration returns the TTL. No lease lasts longer than clientv3.MaxLeaseTTL.
func (so *sessionOptions) ttlDuration() time.Duration {
	return time.Duration(min(int64(so.ttl), clientv3.MaxLeaseTTL)) * time.Second
}

// SessionOption configures a [Session].
type SessionOption func(*sessionOptions, *zap.Logger)

// WithTTL sets the time in seconds that the session's lease lasts when it is not
// renewed: how long the keys of a dead process stay. The default is 60. A TTL that is
// not positive changes nothing and gives a warning in the log.
func WithTTL(ttl int) SessionOption {
	return func(so *sessionOptions, lg *zap.Logger) {
		if ttl <= 0 {
			lg.Warn("session TTL is not positive and was ignored", zap.Int("ttl", ttl), zap.Int("kept", so.ttl))
			return
		}
		so.ttl = ttl
	}
}

// WithLease makes the session keep an existing lease alive, for instance that of the
// process that ran before a restart, whose locks and offices it then has. Sessions
// that share a lease share its keys, and do not know of each other: what one gives up,
// another may have had. A session that goes on after its lease was given away also deletes
// keys of failed calls of its own that appear later, see the package comment; [Session.Orphan]
// ends that. A lease that does not exist makes a session that ends at once. The TTL remains
// that of the lease; [WithTTL] then only bounds [Session.Close].
func WithLease(leaseID clientv3.LeaseID) SessionOption {
	return func(so *sessionOptions, _ *zap.Logger) { so.leaseID = leaseID }
}

// WithContext gives the session a context in waiter of the client's. When it ends,
// NewSession and Close return, and the session ends; its lease is not revoked then,
// and ends when its TTL has passed. The session sets a monitor of its own in it
// ([clientv3.WithLeaseMonitor]).
func WithContext(ctx context.Context) SessionOption {
	return func(so *sessionOptions, _ *zap.Logger) { so.ctx = ctx }
}
