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
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

const (
	// patience bounds how long work without a deadline may go on failing. It is twice what
	// a server with default timeouts waits for an election and a commit (7 s): a call
	// outlives a change of leader, and a program that sets no deadlines hears of an outage.
	patience = 15 * time.Second

	// maxTokenRefreshes bounds the tokens that one call may ask for. A cluster that refuses
	// fresh tokens refuses the next one as well, and each costs it a password hash.
	maxTokenRefreshes = 3
)

// Retrier decides after each failure of one piece of work whether it is tried again, and
// waits until it is time to. It serves calls, and the owners of streams, who alone know
// where a broken one goes on: they open their streams over it, as a
// grpc.ClientConnInterface, so that the next one avoids the endpoints that the work failed
// on. It is not safe for concurrent use, but for [Retrier.Wake].
type Retrier struct {
	c      *Caller
	method string
	policy retry.Policy
	opened *attempt // the latest stream's

	// endless work goes on for as long as its context lives.
	endless bool
	wake    chan struct{} // holds a Wake since the latest Progress; nil unless endless
	// ambiguous is set when an attempt ended of which it is not known whether it was executed;
	// nil if nobody asked.
	ambiguous *atomic.Bool

	// Since the work last made progress:
	failures   int
	refreshes  int
	progressed bool                 // there was no failure since
	lost       bool                 // a connection was lost under an attempt
	since      time.Time            // of the first failure
	failed     []*balancer.Endpoint // each endpoint that it failed on
	latest     failure              // that no other endpoint was tried since
	woken      time.Time            // when a pause last ended early, or was left out
	improved   <-chan struct{}      // closed by an improvement since the latest attempt began
	refused    refusals             // by members that cannot serve it at all
	unled      refusals             // by those, and by members without a leader
	leaderless bool                 // every endpoint that can be reached is in unled
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

// Endless makes this the Retrier of work that goes on for as long as its context lives, as
// watches and keepalives do, and returns it. Neither the 15 s of patience nor the policy's
// MaxAttempts end it, nor does an error after which the policy repeats no call: opening such
// a stream again is always safe. The first failure since the last Progress costs no
// backoff: a stream that breaks is opened again at once, or within 100 ms if it was silent,
// see [Retrier.Wake].
//
// What still ends it is the context; the end of the client; an error that another attempt
// would meet again, such as PermissionDenied, a wrong password or a message over the
// client's limit; a refusal by every endpoint, as learners give it; and, for a context that
// requires a leader, ErrNoLeader from every endpoint that can be reached.
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
	r.opened = r.next(new(attempt))
	s, err := r.c.openStream(ctx, r.opened, method, p, func(a *attempt) (grpc.ClientStream, error) {
		return r.c.conn.NewStream(a.ctx, desc, method, opts...)
	})
	r.failedOver(r.opened)
	return s, err
}

// next prepares another attempt.
func (r *Retrier) next(a *attempt) *attempt {
	a.Avoid = r.failed
	a.from, r.latest = r.latest, failure{}
	r.improved = r.c.monitor.Improved()
	return a
}

// failedOver tells the observer that an attempt followed a failure at another endpoint.
func (r *Retrier) failedOver(a *attempt) {
	if to := a.endpoint(); a.from.at != nil && to != nil && to != a.from.at {
		r.c.observer.FailedOver(observe.Failover{
			Method: r.method, From: r.c.name(a.from.at), To: r.c.name(to), Err: a.from.err,
		})
	}
}

// Progress notes that the stream delivered something.
func (r *Retrier) Progress() {
	r.c.budget.Deposit()
	select {
	case <-r.wake:
	default:
	}
	r.failures, r.refreshes, r.progressed, r.lost, r.failed, r.latest = 0, 0, true, false, nil, failure{}
	r.refused, r.unled, r.leaderless = refusals{}, refusals{}, false
}

// Leaderless reports whether every endpoint that can be reached has refused the work since
// its last Progress, because it has no leader (ErrNoLeader) or because it is a learner. A
// member without a leader serves a stream that does not require one, so it is time to open
// it like that.
func (r *Retrier) Leaderless() bool { return r.leaderless }

// Removed returns a channel that is closed when the endpoint of the latest stream is no
// longer one of the client's, or the client is closed: the stream lives on, but should
// move. It is nil if it is not known where the stream went.
func (r *Retrier) Removed() <-chan struct{} {
	if ep := r.opened.endpoint(); ep != nil {
		return ep.Removed()
	}
	return nil
}

// Endpoint returns where the latest stream went, by the name that the client was given,
// without passwords; "" if that is not known.
func (r *Retrier) Endpoint() string { return r.c.name(r.opened.endpoint()) }

// InvalidateToken is called when the server refused, in a message on the latest stream,
// what was asked of it there. If that is because of the token that the stream was opened
// with, or may be, it forgets the token, and reports whether the next stream would carry
// another one. A denied permission may be: before 3.5.6 etcd says no more of a bad token
// in a message.
func (r *Retrier) InvalidateToken(refusal error) bool {
	class := retry.Classify(refusal, retry.Evidence{Sent: true, Method: r.method})
	if class != retry.Token && !errors.Is(rpctypes.Error(refusal), rpctypes.ErrPermissionDenied) {
		return false
	}
	return r.c.tokens.invalidate(r.opened.usedToken(), refusal)
}

// Next decides what follows the error that ended a stream. It returns nil when it is time
// to open the stream again, and otherwise the error that the work ends with. Work without a
// deadline ends when it has failed for 15 s, unless it is [Retrier.Endless].
func (r *Retrier) Next(ctx context.Context, cause error) error {
	class := r.correct(r.classify(ctx, cause), r.opened)
	switch retry.Decide(class, retry.Repeatable) {
	case retry.Refresh:
		return r.refresh(ctx, r.opened, cause)
	case retry.Again:
		return r.again(ctx, class, r.opened, cause)
	default:
		return cause
	}
}

// Pause waits as Next does after an error that is passing, whatever its class.
func (r *Retrier) Pause(ctx context.Context, cause error) error {
	class := r.classify(ctx, cause)
	if class == retry.NoLeader {
		return r.again(ctx, class, r.opened, cause)
	}
	return r.pause(ctx, class, r.opened, cause)
}

// classify names the class of an error that ended a stream.
func (r *Retrier) classify(ctx context.Context, cause error) retry.Class {
	return retry.Classify(cause, retry.Evidence{Sent: true, ContextErr: ctx.Err(), Method: r.method})
}

// correct corrects a class by what only the channel knows: a proxy that shuts down passes
// its own closing on.
func (r *Retrier) correct(class retry.Class, a *attempt) retry.Class {
	if class == retry.Closed && !r.c.isClosed() && a.endpoint() != nil {
		return retry.Ambiguous
	}
	return class
}

// refresh replaces the token that the server refused, and is for the rest like again. The
// first time there is no pause.
func (r *Retrier) refresh(ctx context.Context, a *attempt, refusal error) error {
	if r.refreshes >= maxTokenRefreshes {
		return refusal
	}
	replaced, err := r.c.tokens.replace(ctx, a.usedToken(), refusal)
	if err != nil {
		return r.unrenewed(ctx, a, err)
	}
	if !replaced {
		return refusal
	}
	if r.refreshes++; r.refreshes == 1 {
		r.retried(retry.Token, a, refusal)
		return nil
	}
	return r.pause(ctx, retry.Token, a, refusal)
}

// unrenewed decides what follows an Authenticate that failed. Endless work outlives an
// outage that begins while its token is being renewed.
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
		r.unled.add(ep)
		if r.refused.add(ep); r.refused.byAll(ep, r.c.width()) {
			return cause
		}
	case retry.NoLeader:
		if r.unled.add(ep); r.unled.byAllReachable(ep, r.c.width()) {
			return r.withoutLeader(ctx, a, cause)
		}
	case retry.Ambiguous:
		if !r.endless && !r.policy.Retryable(retry.CodeOf(cause)) {
			return cause
		}
		if r.ambiguous != nil {
			r.ambiguous.Store(true)
		}
	default:
	}
	return r.pause(ctx, class, a, cause)
}

// withoutLeader goes on when no endpoint has a leader. The first time, endless work can be
// done in another way, for which there is nothing to wait.
func (r *Retrier) withoutLeader(ctx context.Context, a *attempt, cause error) error {
	known := r.leaderless
	r.leaderless = true
	switch {
	case requiresLeader(ctx):
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

// requiresLeader reports whether the caller would rather hear that there is no leader than
// wait for one.
func requiresLeader(ctx context.Context) bool {
	md, _ := metadata.FromOutgoingContext(ctx)
	return len(md.Get(rpctypes.MetadataRequireLeaderKey)) > 0
}

// retried tells the observer that there will be another attempt.
func (r *Retrier) retried(class retry.Class, a *attempt, cause error) {
	r.c.observer.Retried(observe.Retry{
		Method: r.method, Endpoint: r.c.name(a.endpoint()), Class: class.String(), Err: cause,
	})
}

// left returns how long the work may still go on.
func (r *Retrier) left(ctx context.Context, now time.Time) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return end.Sub(now)
	}
	if r.endless {
		return math.MaxInt64
	}
	return r.since.Add(patience).Sub(now)
}

// fail notes a failure.
func (r *Retrier) fail(ep *balancer.Endpoint, cause error, now time.Time) {
	if r.failures == 0 {
		r.since = now
	}
	r.failures++
	r.latest = failure{ep, cause}
	r.avoid(ep)
}

// avoid keeps further attempts away from an endpoint. The attempts in flight keep the list
// that they were given.
func (r *Retrier) avoid(ep *balancer.Endpoint) {
	if ep != nil && !slices.Contains(r.failed, ep) {
		r.failed = append(slices.DeleteFunc(slices.Clone(r.failed), isRemoved), ep)
	}
}
