package concurrency

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
)

// defaultTTL is the default TTL of a session's lease in seconds, as in the official
// client.
const defaultTTL = 60

type sessionOptions struct {
	ttl     int64 // seconds
	leaseID clientv3.LeaseID
	ctx     context.Context
}

// ttlDuration returns the TTL, at most clientv3.MaxLeaseTTL.
func (so *sessionOptions) ttlDuration() time.Duration {
	return time.Duration(min(so.ttl, clientv3.MaxLeaseTTL)) * time.Second
}

// SessionOption configures a [Session].
type SessionOption func(*sessionOptions, *zap.Logger)

// WithTTL sets the TTL of the session's lease in seconds: how long the keys of a dead
// process stay. The default is 60. A TTL of 0 or less is ignored, with a warning in
// the log.
func WithTTL(ttl int) SessionOption {
	return func(so *sessionOptions, lg *zap.Logger) {
		if ttl <= 0 {
			lg.Warn("session TTL is not positive and was ignored", zap.Int("ttl", ttl), zap.Int64("kept", so.ttl))
			return
		}
		so.ttl = int64(ttl)
	}
}

// WithLease makes the session keep an existing lease alive, for example that of the process
// before a restart, and take over its locks and elections. Sessions that share a lease share
// its keys without coordination: one may release what another holds. The session that granted
// the lease also deletes late keys of its own failed calls, see the package comment;
// [Session.Orphan] stops that. With a lease that does not exist the session ends at once. The
// lease keeps its TTL; [WithTTL] then only bounds [Session.Close].
func WithLease(leaseID clientv3.LeaseID) SessionOption {
	return func(so *sessionOptions, _ *zap.Logger) { so.leaseID = leaseID }
}

// WithContext sets the session's context, in place of the client's. When it ends,
// NewSession and Close return and the session ends; its lease is then not revoked,
// and expires after its TTL. Until then locks and elections work. The session adds its
// own monitor to the context ([clientv3.WithLeaseMonitor]).
func WithContext(ctx context.Context) SessionOption {
	return func(so *sessionOptions, _ *zap.Logger) { so.ctx = ctx }
}
