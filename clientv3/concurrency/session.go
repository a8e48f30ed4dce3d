package concurrency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/grant"
)

// Session is a lease that is kept alive until the session ends. Locks and elections
// belong to a session and are lost with it, see [Session.Done]. It is safe for
// concurrent use.
type Session struct {
	client *clientv3.Client
	opts   sessionOptions
	id     clientv3.LeaseID

	// ctx ends with the session. Its cause is the reason.
	ctx     context.Context
	end     context.CancelCauseFunc
	done    chan struct{} // closed when ctx has ended and nothing keeps the lease alive
	monitor clientv3.LeaseMonitor

	claims   claims
	cleanups cleanups
}

// NewSession grants a lease, or uses that of [WithLease], and keeps it alive. The
// error is that of the grant, or says that the client is closed. The grant waits while
// no member can be reached, until the context of [WithContext] or the client ends.
func NewSession(client *clientv3.Client, opts ...SessionOption) (*Session, error) {
	so := sessionOptions{ttl: defaultTTL, ctx: client.Ctx()}
	for _, opt := range opts {
		opt(&so, client.GetLogger())
	}
	return openSession(grant.Context(so.ctx), client, so)
}

// openSession makes a session; ctx bounds the grant, and the revocation if the lease cannot be kept alive.
func openSession(ctx context.Context, client *clientv3.Client, opts sessionOptions) (*Session, error) {
	s := &Session{client: client, opts: opts, id: opts.leaseID, done: make(chan struct{})}
	if s.id == clientv3.NoLease {
		lease, err := client.Grant(ctx, opts.ttl)
		if err != nil {
			return nil, err
		}
		s.id = lease.ID
	}
	s.ctx, s.end = context.WithCancelCause(opts.ctx)
	alive, err := client.KeepAlive(clientv3.WithLeaseMonitor(s.ctx, &s.monitor), s.id)
	if err == nil && alive == nil {
		err = errKeepAliveEnded
	}
	if err != nil {
		s.end(err)
		if opts.leaseID == clientv3.NoLease {
			_ = s.revoke(ctx) // otherwise the lease expires later
		}
		return nil, err
	}
	go s.watchKeepAlive(alive)
	return s, nil
}

// watchKeepAlive ends the session when its lease is no longer kept alive.
func (s *Session) watchKeepAlive(alive <-chan *clientv3.LeaseKeepAliveResponse) {
	for range alive { // wait until the channel is closed
	}
	s.end(cmp.Or(s.monitor.Err(), errKeepAliveEnded))
	close(s.done)
}

// Client returns the client that the session uses.
func (s *Session) Client() *clientv3.Client { return s.client }

// Lease returns the session's lease. Keys attached to it are deleted when the
// session ends.
func (s *Session) Lease() clientv3.LeaseID { return s.id }

// Ctx returns a context that ends with the session. Its [context.Cause] is the
// Cause of [Session.Err].
func (s *Session) Ctx() context.Context { return s.ctx }

// Done returns a channel that is closed when the session has ended: by [Session.Orphan]
// or [Session.Close], with the context of [WithContext], with its client, or because
// its lease was lost. [Session.Err] returns the reason.
//
// If the cluster does not answer, the lease counts as lost when its TTL has passed
// since the last answered renewal was sent. The leader counts from a later moment,
// so Done is closed before another session can get the lock; the caller's reaction
// time adds to that. [clientv3.LeaseMonitor.Deadline] names the servers on which a
// lease may end earlier.
func (s *Session) Done() <-chan struct{} { return s.done }

// Deadline returns until when the session's lease lives unless it is revoked: see
// [clientv3.LeaseMonitor.Deadline]. It is zero before the first renewal of a lease that the
// client did not grant.
func (s *Session) Deadline() time.Time { return s.monitor.Deadline() }

// LastRenewal returns when the last answered renewal of the session's lease was sent: see [clientv3.LeaseMonitor.LastRenewal].
func (s *Session) LastRenewal() time.Time { return s.monitor.LastRenewal() }

// Err returns nil until the session ends, and then a [*SessionEndedError] whose Cause is
//
//   - [ErrSessionOrphaned] or [ErrSessionClosed];
//   - rpctypes.ErrLeaseNotFound: the lease has expired or was revoked;
//   - [clientv3.ErrLeaseUnanswered], wrapped: the TTL has passed without an answer
//     from the cluster;
//   - rpctypes.ErrNoLeader, if the context of [WithContext] was made by
//     [clientv3.WithRequireLeader];
//   - the cause of that context or of the client's: context.Canceled after
//     Client.Close;
//   - clientv3.ErrKeepAliveHalted, if only the client's Lease was closed.
func (s *Session) Err() error {
	cause := context.Cause(s.ctx)
	if cause == nil {
		return nil
	}
	return &SessionEndedError{Lease: s.id, LastRenewal: s.monitor.LastRenewal(), Cause: cause}
}

// Recreate returns a new session with the client and the options of s, on a new lease
// with the TTL of s. Nothing else carries over: keys of the old lease are deleted
// with it, and the program creates its locks and elections again over the new
// session. Use it to continue after a session is lost:
//
//	<-session.Done()
//	session, err = session.Recreate(ctx)
//
// ctx bounds the call, not the session. If s has not ended it is unchanged.
func (s *Session) Recreate(ctx context.Context) (*Session, error) {
	if err := s.opts.ctx.Err(); err != nil {
		return nil, err
	}
	opts := s.opts
	opts.leaseID = clientv3.NoLease
	return openSession(ctx, s.client, opts)
}

// Orphan ends the session without revoking its lease, which lives until its TTL has
// passed, or longer if another process keeps it alive. Orphan returns when the
// session sends no more requests. Locks and elections continue to work over an
// orphaned session while its lease lives.
func (s *Session) Orphan() { s.stop(ErrSessionOrphaned) }

// Close ends the session and revokes its lease, which deletes its keys. It takes at
// most the TTL, after which the lease has expired anyway. The error is
// rpctypes.ErrLeaseNotFound if the lease had already ended.
func (s *Session) Close() error {
	s.stop(ErrSessionClosed)
	return s.revoke(s.opts.ctx)
}

func (s *Session) stop(cause error) {
	s.end(cause)
	<-s.done
	s.cleanups.wait()
}

func (s *Session) revoke(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.ttlDuration())
	defer cancel()
	_, err := s.client.Revoke(ctx, s.id)
	return err
}

// lost reports whether the session has ended, and its lease with it. Two ends leave the lease
// alive: after Orphan another process may renew it (etcd's lock service orphans its sessions at
// once), and after the end of the session's context it lives for the rest of its TTL: programs
// rely on that if they give NewSession a context for the call only. With the cause
// ErrSessionClosed the lease is being revoked.
func (s *Session) lost() bool {
	cause := context.Cause(s.ctx)
	ended := cause != nil && !errors.Is(cause, ErrSessionOrphaned)
	return ended && (errors.Is(cause, ErrSessionClosed) || !errors.Is(cause, context.Cause(s.opts.ctx)))
}

// bind returns a context that ends with ctx, or with the cause ErrSessionExpired
// when the session is lost. The caller must call release.
func (s *Session) bind(ctx context.Context) (bound context.Context, release func()) {
	bound, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() {
		if s.lost() {
			cancel(ErrSessionExpired)
		}
	})
	return bound, func() {
		stop()
		cancel(nil)
	}
}

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

var (
	// ErrSessionOrphaned is the cause of a session's end by [Session.Orphan].
	ErrSessionOrphaned = errors.New("session: orphaned")

	// ErrSessionClosed is the cause of a session's end by [Session.Close].
	ErrSessionClosed = errors.New("session: closed")
)

// errKeepAliveEnded is the cause of a session's end if the program has replaced the
// client's Lease and that one reports no cause.
var errKeepAliveEnded = errors.New("session: its lease is no longer kept alive")

// SessionEndedError reports why a session ended, see [Session.Err].
type SessionEndedError struct {
	// Lease is the session's lease.
	Lease clientv3.LeaseID
	// LastRenewal is the send time of the last answered renewal, zero if there was
	// none: see [clientv3.LeaseMonitor.LastRenewal].
	LastRenewal time.Time
	// Cause is why the session ended.
	Cause error
}

// Error returns the cause, with the lease and the time of its last renewal.
func (e *SessionEndedError) Error() string {
	renewed := "never renewed"
	if !e.LastRenewal.IsZero() {
		renewed = "last renewed at " + e.LastRenewal.Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("session of lease %x ended, %s: %v", int64(e.Lease), renewed, e.Cause)
}

// Unwrap returns the cause.
func (e *SessionEndedError) Unwrap() error { return e.Cause }
