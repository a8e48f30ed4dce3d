package concurrency

import (
	"context"
	"errors"

	"github.com/quorate/quorate/clientv3"
)

// Session is a lease that is kept alive until the session ends. Locks and offices are
// had by sessions and are lost with them, see [Session.Done]. It is safe for
// concurrent use.
type Session struct {
	client *clientv3.Client
	opts   sessionOptions
	id     clientv3.LeaseID

	// ctx ends with the session. Its cause is why.
	ctx     context.Context
	end     context.CancelCauseFunc
	done    chan struct{} // closed when ctx has ended and nothing keeps the lease alive
	monitor clientv3.LeaseMonitor

	claims   claims
	cleanups cleanups
}

// NewSession grants a lease, or takes that of [WithLease], and keeps it alive. The
// error is that of the grant, or says that the client is closed.
func NewSession(client *clientv3.Client, opts ...SessionOption) (*Session, error) {
	so := sessionOptions{ttl: defaultTTL, ctx: client.Ctx()}
	for _, opt := range opts {
		opt(&so, client.GetLogger())
	}
	return openSession(so.ctx, client, so)
}

// openSession makes a session; ctx is that of the grant.
func openSession(ctx context.Context, client *clientv3.Client, opts sessionOptions) (*Session, error) {
	s := &Session{client: client, opts: opts, id: opts.leaseID, done: make(chan struct{})}
	if s.id == clientv3.NoLease {
		lease, err := client.Grant(ctx, int64(opts.ttl))
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
			_ = s.revoke() // the lease ends by itself, only later
		}
		return nil, err
	}
	go s.watchKeepAlive(alive)
	return s, nil
}

// watchKeepAlive ends the session when its lease is no longer kept alive.
func (s *Session) watchKeepAlive(alive <-chan *clientv3.LeaseKeepAliveResponse) {
	for range alive { // what matters is when the channel is closed
	}
	cause := s.monitor.Err()
	if cause == nil {
		cause = errKeepAliveEnded
	}
	s.end(cause)
	close(s.done)
}

// Client returns the client that the session uses.
func (s *Session) Client() *clientv3.Client { return s.client }

// Lease returns the session's lease, which keys are attached to that are to go with
// the session.
func (s *Session) Lease() clientv3.LeaseID { return s.id }

// Ctx returns a context that ends with the session. [context.Cause] of it is the
// Cause that [Session.Err] tells.
func (s *Session) Ctx() context.Context { return s.ctx }

// Done returns a channel that is closed when the session has ended: by [Session.Orphan]
// or [Session.Close], with the context of [WithContext], with its client, or because
// its lease was lost. See [Session.Err] for which of them it was.
//
// A lease that the cluster cannot be asked about counts as lost when its TTL has
// passed since the last renewal was sent. A leader counts from a later moment, so
// whoever heeds Done stops before another one begins, but for the time that heeding
// takes. [clientv3.LeaseMonitor.Deadline] names the servers on which a lease may end
// earlier.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns nil until the session ends, and then a [*SessionEndedError] whose Cause is
//
//   - [ErrSessionOrphaned] or [ErrSessionClosed];
//   - rpctypes.ErrLeaseNotFound: the server says that there is no such lease: it has
//     expired or was revoked;
//   - [clientv3.ErrLeaseUnanswered], wrapped: the TTL has passed without an answer;
//   - rpctypes.ErrNoLeader, if the context of [WithContext] was made by
//     [clientv3.WithRequireLeader];
//   - the cause of the end of that context, or of the client's: context.Canceled after
//     its Close;
//   - clientv3.ErrKeepAliveHalted, if only the client's Lease was closed.
func (s *Session) Err() error {
	cause := context.Cause(s.ctx)
	if cause == nil {
		return nil
	}
	return &SessionEndedError{Lease: s.id, LastRenewal: s.monitor.LastRenewal(), Cause: cause}
}

// Recreate returns a new session with the client and the options of s, on a new lease
// with the TTL of s. Nothing else is taken over: keys of the old lease go with it,
// and locks and elections are made again over the new session. It is for a program
// that goes on when its session is lost:
//
//	<-session.Done()
//	session, err = session.Recreate(ctx)
//
// ctx bounds the call, not the session. A session that has not ended remains as it is.
func (s *Session) Recreate(ctx context.Context) (*Session, error) {
	if err := s.opts.ctx.Err(); err != nil {
		return nil, err
	}
	opts := s.opts
	opts.leaseID = clientv3.NoLease
	return openSession(ctx, s.client, opts)
}

// Orphan ends the session without revoking its lease, which goes on until its TTL has
// passed or somebody else keeps it alive. It returns when nothing is sent any more.
// Locks and elections go on working over an orphaned session for as long as its lease
// lives.
func (s *Session) Orphan() { s.stop(ErrSessionOrphaned) }

// Close ends the session and revokes its lease, so that its keys are deleted. It takes
// no longer than the TTL, by when the lease has ended anyway. The error is
// rpctypes.ErrLeaseNotFound if the lease had ended before.
func (s *Session) Close() error {
	s.stop(ErrSessionClosed)
	return s.revoke()
}

func (s *Session) stop(cause error) {
	s.end(cause)
	<-s.done
	s.cleanups.wait()
}

func (s *Session) revoke() error {
	ctx, cancel := context.WithTimeout(s.opts.ctx, s.opts.ttlDuration())
	defer cancel()
	_, err := s.client.Revoke(ctx, s.id)
	return err
}

// lost reports whether the lease is renewed no more, by nobody as far as is known: that
// of an orphaned session may have another keeper, as with the lock service of etcd,
// which orphans its sessions first thing.
func (s *Session) lost() bool {
	cause := context.Cause(s.ctx)
	return cause != nil && !errors.Is(cause, ErrSessionOrphaned)
}

// bind returns a context that ends with ctx, and with ErrSessionExpired as its cause
// when the session is lost. The caller releases it.
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
