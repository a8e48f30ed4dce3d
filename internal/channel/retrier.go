package channel

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

const (
	// retryTimeout bounds how long work without a deadline may keep failing. It is twice the
	// time that a server with default timeouts waits for an election and a commit (7 s): a
	// call survives a change of leader, and a program without deadlines gets an error in an
	// outage.
	retryTimeout = 15 * time.Second

	// maxTokenRefreshes bounds the token requests of one call. A cluster that refuses fresh
	// tokens will refuse the next one too, and each costs it a password hash.
	maxTokenRefreshes = 3
)

// Retrier decides after each failure of a call or stream whether to try again, and waits
// until then. Owners of streams open them over it, as a grpc.ClientConnInterface, so that
// the next stream avoids the endpoints that failed. It is not safe for concurrent use,
// except for [Retrier.Wake].
type Retrier struct {
	c      *Caller
	method string
	policy retry.Policy
	opened *attempt  // the latest stream's
	began  time.Time // when the latest stream began
	short  int       // streams in a row that worked, and ended soon

	// endless work goes on for as long as its context lives.
	endless bool
	wake    chan struct{} // holds a Wake since the latest Progress; nil unless endless
	// ambiguous, if not nil, is set when an attempt that may have been executed fails.
	ambiguous *atomic.Bool

	// Of a call:
	retries int
	paused  time.Duration // between attempts

	// Since the work last made progress:
	failures   int
	refreshes  int                  // new tokens
	moves      int                  // to another member with the latest token
	repeated   bool                 // with the same token, because users or roles had changed
	progressed bool                 // there was no failure since
	lost       bool                 // a connection was lost under an attempt
	warned     bool                 // the log has a warning
	since      time.Time            // the time of the first failure
	failed     []*balancer.Endpoint // each endpoint that it failed on
	latest     *failure             // after which no other endpoint was tried
	woken      time.Time            // when a pause last ended early or was skipped
	improved   <-chan struct{}      // closed by an improvement since the latest attempt began
	refused    refusals             // refusals by members that cannot serve it at all
	noLeader   refusals             // refusals by the members in refused, and by members without a leader
	leaderless bool                 // every endpoint that can be reached is in noLeader
}

var _ grpc.ClientConnInterface = (*Retrier)(nil)

// failure is an error of an endpoint.
type failure struct {
	at  *balancer.Endpoint // nil if there was none
	err error
}

// Retrier returns the Retrier of a call or a stream of the given method.
func (c *Caller) Retrier(method string) *Retrier {
	return &Retrier{c: c, method: method, policy: c.config.PolicyFor(method)}
}

// DefaultRetrier returns the Retrier of a stream that no Channel carries, with the default
// policy and a budget of its own. Streams cannot be opened over it.
func DefaultRetrier(method string) *Retrier {
	client := newClient(Config{Login: func() Login { return Login{} }, Logger: zap.NewNop})
	return client.newCaller(noConn{}, func() int { return 1 }).Retrier(method)
}

// noConn is the connection of a Retrier without a Channel.
type noConn struct{}

func (noConn) Invoke(context.Context, string, any, any, ...grpc.CallOption) error { return ErrClosed }

func (noConn) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, ErrClosed
}

// Endless marks the work as running until its context ends, as watches and keepalives do,
// and returns r. The time limit of 15 s, the policy's MaxAttempts and its RetryableStatusCodes
// do not apply: reopening such a stream is always safe. The first failure since the last
// Progress has no backoff: a broken stream is reopened at once, or within 100 ms if it was
// silent, see [Retrier.Wake].
//
// The work still ends with its context; with the client; with an error that a repetition
// would get again, such as PermissionDenied, a wrong password or a message over the
// client's limit; with one of an interceptor of the program that is no status; with a
// refusal by every endpoint, for example by learners; and, for a context that requires a
// leader, with ErrNoLeader from every reachable endpoint.
func (r *Retrier) Endless() *Retrier {
	r.endless, r.wake = true, make(chan struct{}, 1)
	return r
}

// Invoke makes a call without retries.
func (r *Retrier) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	return r.c.conn.Invoke(ctx, method, req, reply, opts...)
}

// NewStream opens the next stream of the work.
func (r *Retrier) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	p := r.c.propertiesOf(method, nil)
	if r.leaderless {
		p.need = balancer.Local
	}
	r.opened, r.began = r.next(new(attempt)), time.Now()
	s, err := r.c.openStream(ctx, r.opened, method, p, func(a *attempt) (grpc.ClientStream, error) {
		return r.c.conn.NewStream(a.ctx, desc, method, opts...)
	})
	r.failedOver(r.opened)
	return s, err
}

// next prepares another attempt.
func (r *Retrier) next(a *attempt) *attempt {
	a.Avoid = r.failed
	a.from, r.latest = r.latest, nil
	r.improved = r.c.monitor.Improved()
	return a
}

// failedOver reports a failover to another endpoint to the observer.
func (r *Retrier) failedOver(a *attempt) {
	if to := a.endpoint(); a.from != nil && a.from.at != nil && to != nil && to != a.from.at {
		r.c.observer.FailedOver(observe.Failover{
			Method: r.method, From: r.c.name(a.from.at), To: r.c.name(to), Err: a.from.err,
		})
	}
}

// Progress records that the stream delivered something.
func (r *Retrier) Progress() {
	r.c.budget.Deposit()
	select {
	case <-r.wake:
	default:
	}
	r.failures, r.refreshes, r.moves, r.progressed, r.lost, r.failed, r.latest = 0, 0, 0, true, false, nil, nil
	r.refused, r.noLeader, r.leaderless, r.repeated, r.warned = refusals{}, refusals{}, false, false, false
}

// Leaderless reports whether every reachable endpoint has refused the work since its last
// Progress, because it has no leader (ErrNoLeader) or is a learner. The owner should then
// open a stream that does not require a leader, which members without a leader serve.
func (r *Retrier) Leaderless() bool { return r.leaderless }

// Removed returns a channel that is closed when the endpoint of the latest stream is no
// longer one of the client's, or the client is closed: the stream lives on, but should
// move. It is nil if the stream's endpoint is unknown.
func (r *Retrier) Removed() <-chan struct{} {
	if ep := r.opened.endpoint(); ep != nil {
		return ep.Removed()
	}
	return nil
}

// Endpoint returns the endpoint of the latest stream, as configured, without passwords;
// "" if unknown.
func (r *Retrier) Endpoint() string { return r.c.name(r.opened.endpoint()) }

// InvalidateToken is called when the server refused a request in a message on the latest
// stream. If the stream's token is or may be the reason, it discards the token and reports
// whether the next stream may be accepted, and whether it carries another token. A new token
// is not discarded: the next stream carries it to another member. The token may be the reason
// for a denied permission, because etcd before 3.5.6 reports a bad token so in a message.
// After a denial the next stream's token is no older than tokenSettles.
func (r *Retrier) InvalidateToken(refusal error) (again, another bool) {
	class := retry.Classify(refusal, retry.Evidence{Sent: true, Method: r.method})
	if class != retry.Token && !isDenial(refusal) {
		return false, false
	}
	next := r.c.tokens.invalidate(r.opened, refusal)
	return next != notRenewed, next == renewed
}

// Next handles the error that ended a stream. It returns nil when it is time to reopen the
// stream, and otherwise the final error. Work without a deadline ends when it has failed
// for 15 s, unless it is [Retrier.Endless].
func (r *Retrier) Next(ctx context.Context, cause error) error {
	class := r.correct(r.classify(ctx, cause), r.opened, cause)
	switch retry.Decide(class, retry.Repeatable) {
	case retry.Refresh:
		return r.refresh(ctx, r.opened, cause)
	case retry.Again:
		return r.again(ctx, class, r.opened, cause)
	default:
		return cause
	}
}

// Pause waits like Next, and treats any error as transient.
func (r *Retrier) Pause(ctx context.Context, cause error) error {
	class := r.classify(ctx, cause)
	if class == retry.NoLeader {
		return r.again(ctx, class, r.opened, cause)
	}
	return r.pause(ctx, class, r.opened, cause)
}

// classify names the class of an error that ended a stream, or with which none was opened.
func (r *Retrier) classify(ctx context.Context, cause error) retry.Class {
	class := retry.Classify(cause, retry.Evidence{Sent: true, ContextErr: ctx.Err(), Method: r.method})
	if class == retry.Ambiguous && retry.CodeOf(cause) == codes.Unavailable && r.opened.unsent() {
		return retry.NotSent
	}
	return class
}

// correct adjusts a class with the channel's knowledge: a proxy that shuts down forwards
// its own "closing" error, another stream of endless work gets a damaged message whole, and
// a secret that is not sent to a plaintext endpoint may be sent to another one.
func (r *Retrier) correct(class retry.Class, a *attempt, cause error) retry.Class {
	switch {
	case class == retry.Closed && !pause.Closed(r.c.closed) && a.endpoint() != nil,
		class == retry.Executed && r.endless && retry.CodeOf(cause) == codes.Internal:
		return retry.Ambiguous
	case class == retry.Definite && a.keptSecret():
		return retry.Refused
	}
	return class
}

// refresh replaces the refused token, and otherwise acts like again. The first time there
// is no pause, nor before another member is asked with the same token.
func (r *Retrier) refresh(ctx context.Context, a *attempt, refusal error) error {
	// Users or roles were changed while the request was under way. Its token is still valid, unless
	// it names a revision, as a JWT does. Such changes may follow each other, but they end.
	login := r.c.tokens.login()
	changed := errors.Is(rpctypes.Error(refusal), rpctypes.ErrAuthOldRevision) && login.Token == ""
	if changed && !r.repeated {
		r.repeated = true
		r.retried(retry.Token, a, refusal)
		return nil
	}
	next := r.c.tokens.invalidate(a, refusal)
	moves := next == elsewhere && r.moves < r.c.width()
	// A token that is not the client's is the program's, whose credentials or interceptor may have another one by now.
	foreign := login == Login{} && !r.endless && errors.Is(rpctypes.Error(refusal), rpctypes.ErrInvalidAuthToken)
	switch {
	case next == notRenewed && !foreign, r.refreshes >= maxTokenRefreshes && (!changed || login.FromSource):
		return refusal
	case moves || r.refreshes == 0:
		r.retried(retry.Token, a, refusal)
	default:
		if err := r.pause(ctx, retry.Token, a, refusal); err != nil {
			return err
		}
	}
	if err := r.c.tokens.ensure(ctx); err != nil { // after the pause: a token may be short-lived
		return r.unrenewed(ctx, a, err)
	}
	if moves {
		r.moves++
	} else {
		r.moves = 0
		r.refreshes++
	}
	return nil
}

// unrenewed handles a failed Authenticate. Endless work survives an outage that begins
// while its token is being renewed.
func (r *Retrier) unrenewed(ctx context.Context, a *attempt, err error) error {
	class := retry.Classify(err, retry.Evidence{Sent: true, ContextErr: ctx.Err(), Method: pb.Auth_Authenticate_FullMethodName})
	if !r.endless || retry.Decide(class, retry.Repeatable) != retry.Again {
		return err
	}
	return r.pause(ctx, class, a, err)
}

// again returns nil when it is time for another attempt, and the cause, or the end of the
// context or the client, when there is none.
func (r *Retrier) again(ctx context.Context, class retry.Class, a *attempt, cause error) error {
	ep := a.endpoint()
	switch class {
	case retry.Refused:
		r.noLeader.add(ep)
		r.refused.add(ep)
		if r.refused.byAll(ep, r.c.width()) {
			return cause
		}
	case retry.NoLeader:
		r.noLeader.add(ep)
		if r.noLeader.byAllReachable(ep, r.c.width()) {
			return r.withoutLeader(ctx, a, cause)
		}
	case retry.Ambiguous:
		if r.endless && isOfProgram(cause) || !r.endless && !r.policy.Retryable(retry.CodeOf(cause)) {
			return cause
		}
	default:
	}
	return r.pause(ctx, class, a, cause)
}

// withoutLeader handles work for which no endpoint has a leader. The first time, endless
// work continues without a pause, as its owner can open a stream that requires no leader.
func (r *Retrier) withoutLeader(ctx context.Context, a *attempt, cause error) error {
	known := r.leaderless
	r.leaderless = true
	switch {
	case RequiresLeader(ctx):
		return cause
	case !r.endless:
		return r.pause(ctx, retry.NoLeader, a, cause)
	}
	r.fail(a.endpoint(), cause, time.Now())
	if known { // only an election helps, which shows as an improvement
		return r.waitForBudget(ctx, retry.NoLeader, a, cause)
	}
	r.retried(retry.NoLeader, a, cause)
	_, err := r.wait(ctx, r.policy.Delay(1), cause)
	return err
}

// RequiresLeader reports whether the caller wants ErrNoLeader instead of waiting for a
// leader.
func RequiresLeader(ctx context.Context) bool {
	md, _ := metadata.FromOutgoingContext(ctx)
	return slices.Contains(md.Get(rpctypes.MetadataRequireLeaderKey), rpctypes.MetadataHasLeader)
}

// retried reports a retry to the observer.
func (r *Retrier) retried(class retry.Class, a *attempt, cause error) {
	r.c.observer.Retried(observe.Retry{
		Method: r.method, Endpoint: r.c.name(a.endpoint()), Class: class.String(), Err: cause,
	})
}

// left returns how much time the work has left.
func (r *Retrier) left(ctx context.Context, now time.Time) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return end.Sub(now)
	}
	if r.endless {
		return math.MaxInt64
	}
	return r.since.Add(retryTimeout).Sub(now)
}

// fail records a failure.
func (r *Retrier) fail(ep *balancer.Endpoint, cause error, now time.Time) {
	if r.failures == 0 {
		r.since = now
	}
	r.failures++
	r.latest = &failure{ep, cause}
	r.avoid(ep)
}

// avoid makes further attempts avoid an endpoint. In-flight attempts keep their list.
func (r *Retrier) avoid(ep *balancer.Endpoint) {
	if ep != nil && !slices.Contains(r.failed, ep) {
		r.failed = append(slices.DeleteFunc(slices.Clone(r.failed), isRemoved), ep)
	}
}
