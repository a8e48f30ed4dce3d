package channel

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

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
// concurrent use.
type Tries struct {
	*caller
	method string
	policy retry.Policy

	// Since the work last made progress:
	failures  int
	refusals  int
	refreshes int
	since     time.Time // of the first failure
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

// Progress notes that the stream delivered something.
func (t *Tries) Progress() { t.failures, t.refusals, t.refreshes = 0, 0, 0 }

// Next decides what follows the error that ended a stream. It returns nil when
// it is time to open the stream again, and otherwise the error that the work
// ends with. Work without a deadline ends when it has failed for 15 s.
func (t *Tries) Next(ctx context.Context, cause error) error {
	class := retry.Classify(cause, retry.Evidence{Sent: true, ContextErr: ctx.Err(), Method: t.method})
	t.account(class)
	switch retry.Decide(class, retry.Repeatable) {
	case retry.Again, retry.Refresh:
		return t.again(ctx, class, cause)
	default:
		return cause
	}
}

// again returns nil when it is time for another attempt, and the cause, or the
// end of the context or the client, when there is none.
func (t *Tries) again(ctx context.Context, class retry.Class, cause error) error {
	switch class {
	case retry.Refused:
		return t.elsewhere(ctx, cause)
	case retry.NoLeader:
		if requiresLeader(ctx) {
			return t.elsewhere(ctx, cause)
		}
	case retry.Token:
		if t.refreshes++; t.refreshes > maxTokenRefreshes {
			return cause
		}
		if t.refreshes == 1 {
			return nil
		}
	case retry.Ambiguous:
		if !t.policy.Retryable(retry.CodeOf(cause)) {
			return cause
		}
		markAmbiguous(ctx)
	default:
	}
	return t.Pause(ctx, cause)
}

// elsewhere is for refusals of a single member: they are final when as many
// were heard as there are endpoints.
func (t *Tries) elsewhere(ctx context.Context, cause error) error {
	if t.refusals++; t.refusals >= t.width() {
		return cause
	}
	return t.Pause(ctx, cause)
}

// requiresLeader reports whether the caller would rather hear that there is no
// leader than wait for one.
func requiresLeader(ctx context.Context) bool {
	md, _ := metadata.FromOutgoingContext(ctx)
	return len(md.Get(rpctypes.MetadataRequireLeaderKey)) > 0
}

// Pause waits before another attempt, longer after each, and returns nil. It
// returns the cause at once where there may be no more attempts, or the next
// one would come too late.
func (t *Tries) Pause(ctx context.Context, cause error) error {
	now := time.Now()
	if t.failures == 0 {
		t.since = now
	}
	t.failures++
	if t.policy.MaxAttempts > 0 && t.failures >= t.policy.MaxAttempts {
		return cause
	}
	end, ok := ctx.Deadline()
	if !ok {
		end = t.since.Add(patience)
	}
	delay := t.policy.Delay(t.failures, t.budget.Throttled())
	if now.Add(delay).After(end) {
		return cause
	}
	if log := t.log().Check(zap.DebugLevel, "trying again"); log != nil {
		log.Write(zap.String("method", t.method), zap.Int("failures", t.failures), zap.Duration("after", delay), zap.Error(cause))
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-t.closed:
		return errClosed
	}
}
