package channel

import (
	"context"
	"math"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

const (
	// patience bounds how long work without a deadline may go on failing. It is
	// twice what a server with default timeouts waits for an election and a
	// commit (7 s), so that a call outlives a change of leader, and a program
	// that sets no deadlines still hears of an outage.
	patience = 15 * time.Second

	// maxTokenRefreshes bounds the tokens that one call may ask for. A cluster
	// that refuses fresh tokens will not be persuaded, and each costs it a
	// password hash.
	maxTokenRefreshes = 3
)

// Tries decides after each failure of one piece of work whether it is tried
// again, and waits until it is time to. It serves calls, and the owners of
// streams, who alone know where a broken one goes on. It is not safe for
// concurrent use, but for [Tries.Wake].
type Tries struct {
	*caller
	method string
	policy retry.Policy
	opened *attempt // the latest stream's

	// endless work goes on for as long as its context lives.
	endless bool
	wake    chan struct{} // holds a Wake since the latest Progress; nil unless endless

	// Since the work last made progress:
	failures   int
	refreshes  int
	since      time.Time            // of the first failure
	failed     []*balancer.Endpoint // each endpoint that it failed on
	latest     failure              // that is not moved away from yet
	woken      time.Time            // when a pause last ended early, or was left out
	improved   <-chan struct{}      // closed by an improvement since the latest attempt began
	refused    refusals             // by members that cannot serve it at all
	unled      refusals             // by those, and by members without a leader
	leaderless bool                 // every endpoint that can be reached is in unled
}

// failure is an error of an endpoint.
type failure struct {
	at  *balancer.Endpoint // nil if there was none
	err error
}

func (c *caller) newTries(method string) Tries {
	return Tries{caller: c, method: method, policy: c.config.PolicyFor(method)}
}

// Tries returns the Tries of a stream of the given method over the channel.
func (c *caller) Tries(method string) *Tries {
	t := c.newTries(method)
	return &t
}

// DefaultTries returns the Tries of a stream that is not carried by a Channel,
// with the default policy and a budget of its own.
func DefaultTries(method string) *Tries {
	detached := &caller{
		shared: newShared(Config{Login: func() Login { return Login{} }, Logger: zap.NewNop}),
		width:  func() int { return 1 },
	}
	return detached.Tries(method)
}

type triesKey struct{}

// Track returns a context to open the next stream with: it keeps away from the
// endpoints that the work failed on.
func (t *Tries) Track(ctx context.Context) context.Context {
	return context.WithValue(ctx, triesKey{}, t)
}

// next prepares the record of another attempt.
func (t *Tries) next(a *attempt) *attempt {
	a.Avoid = t.failed
	t.improved = t.table.Improved()
	if from := t.latest; from.at != nil {
		t.latest = failure{}
		a.moved = func(to *balancer.Endpoint) {
			if to != from.at {
				t.observer.FailedOver(observe.Failover{Method: t.method, From: t.name(from.at), To: t.name(to), Err: from.err})
			}
		}
	}
	return a
}

// Progress notes that the stream delivered something, which shows a server at
// work.
func (t *Tries) Progress() {
	t.budget.Success()
	select {
	case <-t.wake:
	default:
	}
	t.failures, t.refreshes, t.failed, t.latest = 0, 0, nil, failure{}
	t.refused, t.unled, t.leaderless = refusals{}, refusals{}, false
}

// Next decides what follows the error that ended a stream. It returns nil when
// it is time to open the stream again, and otherwise the error that the work
// ends with. Work without a deadline ends when it has failed for 15 s, unless
// it is [Tries.Endless].
func (t *Tries) Next(ctx context.Context, cause error) error {
	class := t.judge(t.classify(ctx, cause), t.opened)
	switch retry.Decide(class, retry.Repeatable) {
	case retry.Refresh:
		return t.refresh(ctx, t.opened, cause)
	case retry.Again:
		return t.again(ctx, class, t.opened, cause)
	default:
		return cause
	}
}

// Pause waits as Next does after an error that is passing, whatever its class.
func (t *Tries) Pause(ctx context.Context, cause error) error {
	return t.pause(ctx, t.classify(ctx, cause), t.opened, cause)
}

// classify names the class of an error that ended a stream.
func (t *Tries) classify(ctx context.Context, cause error) retry.Class {
	return retry.Classify(cause, retry.Evidence{Sent: true, ContextErr: ctx.Err(), Method: t.method})
}

// judge corrects a class by what only the channel knows, and keeps the budget:
// an answer, even a refusal of what was asked, shows a server at work.
func (t *Tries) judge(class retry.Class, a *attempt) retry.Class {
	switch class {
	case retry.Closed:
		// A proxy that is shutting down passes its own closing on.
		if !t.isClosed() && a.endpoint() != nil {
			return retry.Ambiguous
		}
	case retry.Definite, retry.Executed, retry.Token:
		t.budget.Success()
	default:
	}
	return class
}

// refresh replaces the token that the server refused, and is for the rest like
// again. The first time there is no pause.
func (t *Tries) refresh(ctx context.Context, a *attempt, refusal error) error {
	if t.refreshes >= maxTokenRefreshes {
		return refusal
	}
	replaced, err := t.tokens.replace(ctx, a.usedToken(), refusal)
	if err != nil {
		return t.unrenewed(ctx, a, err)
	}
	if !replaced {
		return refusal
	}
	if t.refreshes++; t.refreshes == 1 {
		t.retried(retry.Token, a, refusal)
		return nil
	}
	return t.pause(ctx, retry.Token, a, refusal)
}

// again returns nil when it is time for another attempt, and the cause, or the
// end of the context or the client, when there is none.
func (t *Tries) again(ctx context.Context, class retry.Class, a *attempt, cause error) error {
	ep := a.endpoint()
	switch class {
	case retry.Refused:
		t.unled.add(ep)
		if t.refused.add(ep); t.refused.byAll(ep, t.width()) {
			return cause
		}
	case retry.NoLeader:
		if t.unled.add(ep); t.unled.byAllReachable(ep, t.width()) {
			return t.withoutLeader(ctx, a, cause)
		}
	case retry.Ambiguous:
		if !t.endless && !t.policy.Retryable(retry.CodeOf(cause)) {
			return cause
		}
		markAmbiguous(ctx)
	default:
	}
	return t.pause(ctx, class, a, cause)
}

// requiresLeader reports whether the caller would rather hear that there is no
// leader than wait for one.
func requiresLeader(ctx context.Context) bool {
	md, _ := metadata.FromOutgoingContext(ctx)
	return len(md.Get(rpctypes.MetadataRequireLeaderKey)) > 0
}

// pause waits before another attempt, longer after each, and returns nil. It
// returns the cause at once where there may be no more attempts, or the next
// one would come too late.
func (t *Tries) pause(ctx context.Context, class retry.Class, a *attempt, cause error) error {
	now := time.Now()
	t.fail(a.endpoint(), cause, now)
	if t.policy.MaxAttempts > 0 && t.failures >= t.policy.MaxAttempts && !t.endless {
		return cause
	}
	delay, ok := t.delay(t.left(ctx, now))
	if !ok {
		return cause
	}
	t.retried(class, a, cause)
	if t.reopensAtOnce(now) {
		return t.reopen(ctx, a, cause)
	}
	return t.wait(ctx, delay, cause)
}

// retried tells the observer that there will be another attempt.
func (t *Tries) retried(class retry.Class, a *attempt, cause error) {
	t.observer.Retried(observe.Retry{
		Method: t.method, Endpoint: t.name(a.endpoint()), Class: class.String(), Err: cause,
	})
}

// left returns how long the work may still go on.
func (t *Tries) left(ctx context.Context, now time.Time) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return end.Sub(now)
	}
	if t.endless {
		return math.MaxInt64
	}
	return t.since.Add(patience).Sub(now)
}

// fail notes a failure.
func (t *Tries) fail(ep *balancer.Endpoint, cause error, now time.Time) {
	if t.failures == 0 {
		t.since = now
	}
	t.failures++
	t.latest = failure{ep, cause}
	t.avoid(ep)
	if t.exhausted() {
		t.budget.Failure()
	}
}

// avoid keeps further attempts away from an endpoint. The attempts that are under
// way keep the list that they were given.
func (t *Tries) avoid(ep *balancer.Endpoint) {
	if ep != nil && !slices.Contains(t.failed, ep) {
		t.failed = append(slices.DeleteFunc(slices.Clone(t.failed), isGone), ep)
	}
}

// exhausted reports whether the work has failed as often as there are
// endpoints. One member in trouble is no outage: until then failures neither
// count against the budget nor wait for it.
func (t *Tries) exhausted() bool { return t.failures >= t.width() }

// delay returns how long to wait, and whether that leaves time for another
// attempt. Only its own failures end the work: if the budget's delay is too
// long, the shorter one that it would have had is taken.
func (t *Tries) delay(left time.Duration) (time.Duration, bool) {
	if t.exhausted() && t.budget.Throttled() {
		if d := t.policy.Delay(t.failures, true); d < left {
			return d, true
		}
	}
	d := t.policy.Delay(t.failures, false)
	return d, d < left
}
