package channel

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/retry"
)

const (
	// patience bounds the retries of a call whose context has no deadline. It
	// is twice what a server with default timeouts waits for an election and a
	// commit (7 s), so that a call outlives a change of leader, and a program
	// that sets no deadlines still hears of an outage.
	patience = 15 * time.Second

	// maxTokenRefreshes bounds the tokens that one call may ask for. A cluster
	// that refuses fresh tokens will not be persuaded, and each costs it a
	// password hash.
	maxTokenRefreshes = 3
)

// errClosed is what grpc answers to calls on a closed ClientConn.
var errClosed = status.Error(codes.Canceled, "grpc: the client connection is closing")

// caller carries out calls over one connection, by the rules of package retry.
// It is the grpc.ClientConnInterface that the API client is built on.
type caller struct {
	*shared
	conn grpc.ClientConnInterface
	// width is how many endpoints a call can choose from.
	width func() int
}

// shared is what all callers of one client have in common.
type shared struct {
	config *retry.Config
	budget *retry.Budget
	tokens *tokenSource
	log    func() *zap.Logger
	closed chan struct{}
}

var _ grpc.ClientConnInterface = (*caller)(nil)

func (s *shared) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// Invoke carries out a unary call, in as many attempts as are safe and useful.
func (c *caller) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	call := c.newCall(ctx, method)
	call.safety = retry.SafetyOf(method, req)
	return call.run(func() error {
		return c.conn.Invoke(&call.attempt, method, req, reply, opts...)
	})
}

// authenticate trades a name and a password for a token. It does not need one
// itself, and may be repeated: a token more on the server hurts nobody.
func (c *caller) authenticate(ctx context.Context, method string, req, reply any) error {
	call := c.newCall(ctx, method)
	call.safety = retry.Repeatable
	call.attempt.anonymous = true
	return call.run(func() error {
		return c.conn.Invoke(&call.attempt, method, req, reply, grpc.WaitForReady(true))
	})
}

// call is a unary call on its way through its attempts.
type call struct {
	attempt
	*caller
	method    string
	safety    retry.Safety
	policy    retry.Policy
	start     time.Time
	attempts  int
	refreshes int
	refusals  int
}

func (c *caller) newCall(ctx context.Context, method string) *call {
	return &call{
		attempt: attempt{Context: ctx},
		caller:  c,
		method:  method,
		policy:  c.config.PolicyFor(method),
		start:   time.Now(),
	}
}

// run makes attempts until one settles the call.
func (c *call) run(try func() error) error {
	for {
		if c.isClosed() {
			return errClosed
		}
		err := try()
		c.attempts++
		class := retry.Classify(err, c.evidence(c.method))
		c.account(class)
		again, err := c.settle(class, err)
		if !again {
			return err
		}
		c.next()
	}
}

// account keeps the retry budget: an answer, even a refusal of what was asked,
// shows a server at work.
func (c *call) account(class retry.Class) {
	switch class {
	case retry.OK, retry.Definite, retry.Executed, retry.Token:
		c.budget.Success()
	case retry.NotSent, retry.Refused, retry.NoLeader, retry.Overloaded, retry.Ambiguous:
		c.budget.Failure()
	case retry.Ended, retry.Closed:
	}
}

// settle decides what follows an attempt: another one, after what must happen
// before it, or the call's result.
func (c *call) settle(class retry.Class, err error) (again bool, result error) {
	switch retry.Decide(class, c.safety) {
	case retry.ReturnUnknown:
		return false, c.unknown(err)
	case retry.Refresh:
		return c.refresh(err)
	case retry.Again:
		if !c.worthwhile(class, err) {
			return false, err
		}
		return c.pause(err)
	case retry.Return:
		if class == retry.Closed && c.safety == retry.Mutating && c.evidence(c.method).Sent {
			return false, c.unknown(err)
		}
	}
	return false, err
}

// unknown says that the call may have been executed. An error of the server's
// own that says so already stays as it is, because programs compare it.
func (c *call) unknown(err error) error {
	var known rpctypes.EtcdError
	if errors.As(rpctypes.Error(err), &known) && retry.OutcomeOf(err) == retry.OutcomeUnknown {
		return err
	}
	return &retry.UnknownOutcomeError{Method: c.method, Err: err}
}

// worthwhile reports whether another attempt can end differently.
func (c *call) worthwhile(class retry.Class, err error) bool {
	switch class {
	case retry.Refused:
		c.refusals++
		return c.refusals < c.width()
	case retry.Ambiguous:
		if !c.policy.Retryable(retry.CodeOf(err)) {
			return false
		}
		markAmbiguous(c.Context)
	}
	return true
}

// refresh replaces the token that the server refused.
func (c *call) refresh(refusal error) (again bool, result error) {
	if c.anonymous || c.refreshes >= maxTokenRefreshes {
		return false, refusal
	}
	c.refreshes++
	ok, err := c.tokens.replace(c.Context, c.token.Load(), refusal)
	switch {
	case err != nil:
		return false, err
	case !ok:
		return false, refusal
	case c.refreshes == 1:
		return true, nil
	default:
		return c.pause(refusal)
	}
}

// pause waits before the next attempt. It returns the error at once where the
// call may have no more attempts, or the next one would come too late.
func (c *call) pause(cause error) (again bool, result error) {
	if c.policy.MaxAttempts > 0 && c.attempts >= c.policy.MaxAttempts {
		return false, cause
	}
	delay := c.policy.Delay(c.attempts, c.budget.Throttled())
	now := time.Now()
	end, ok := c.Deadline()
	if !ok {
		end = c.start.Add(patience)
	}
	if now.Add(delay).After(end) {
		return false, cause
	}
	if log := c.log().Check(zap.DebugLevel, "retrying a call"); log != nil {
		log.Write(zap.String("method", c.method), zap.Int("attempt", c.attempts), zap.Duration("after", delay), zap.Error(cause))
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true, nil
	case <-c.Done():
		return false, status.FromContextError(c.Context.Err()).Err()
	case <-c.closed:
		return false, errClosed
	}
}
