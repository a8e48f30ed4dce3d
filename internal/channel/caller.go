package channel

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/retry"
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

// account keeps the retry budget: an answer, even a refusal of what was asked,
// shows a server at work.
func (s *shared) account(class retry.Class) {
	switch class {
	case retry.Definite, retry.Executed, retry.Token:
		s.budget.Success()
	case retry.NotSent, retry.Refused, retry.NoLeader, retry.Overloaded, retry.Ambiguous:
		s.budget.Failure()
	case retry.OK, retry.Ended, retry.Closed:
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
	call.anonymous = true
	return call.run(func() error {
		return c.conn.Invoke(&call.attempt, method, req, reply, grpc.WaitForReady(true))
	})
}

// call is a unary call on its way through its attempts.
type call struct {
	attempt
	tries  Tries
	safety retry.Safety
}

func (c *caller) newCall(ctx context.Context, method string) *call {
	return &call{attempt: attempt{Context: ctx}, tries: c.newTries(method)}
}

// run makes attempts until one settles the call.
func (c *call) run(try func() error) error {
	s := c.tries.shared
	for {
		if s.isClosed() {
			return errClosed
		}
		err := try()
		if err == nil {
			s.budget.Success()
			return nil
		}
		ev := c.evidence(c.tries.method)
		class := retry.Classify(err, ev)
		s.account(class)
		if err := c.settle(class, ev, err); err != nil {
			return err
		}
		c.next()
	}
}

// settle decides what follows a failed attempt. It returns nil when it is time
// for another one, and otherwise the error that the call ends with.
func (c *call) settle(class retry.Class, ev retry.Evidence, err error) error {
	switch retry.Decide(class, c.safety) {
	case retry.ReturnUnknown:
		return c.unknown(err)
	case retry.Refresh:
		return c.refresh(err)
	case retry.Again:
		return c.tries.again(c.Context, class, err)
	case retry.Return:
		if class == retry.Closed && c.safety == retry.Mutating && ev.Sent {
			return c.unknown(err)
		}
	}
	return err
}

// unknown says that the call may have been executed. An error of the server's
// own that says so already stays as it is, because programs compare it.
func (c *call) unknown(err error) error {
	var known rpctypes.EtcdError
	if errors.As(rpctypes.Error(err), &known) && retry.OutcomeOf(err) == retry.OutcomeUnknown {
		return err
	}
	return &retry.UnknownOutcomeError{Method: c.tries.method, Err: err}
}

// refresh replaces the token that the server refused.
func (c *call) refresh(refusal error) error {
	if c.anonymous || c.tries.refreshes >= maxTokenRefreshes {
		return refusal
	}
	replaced, err := c.tries.tokens.replace(c.Context, c.token.Load(), refusal)
	switch {
	case err != nil:
		return err
	case !replaced:
		return refusal
	default:
		return c.tries.again(c.Context, retry.Token, refusal)
	}
}
