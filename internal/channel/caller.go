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

// ErrClosed is what calls on a closed Channel fail with: what grpc answers to
// calls on a closed ClientConn.
var ErrClosed = status.Error(codes.Canceled, "grpc: the client connection is closing")

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
	call := c.newCall(ctx, method, retry.SafetyOf(method, req))
	return call.run(func(a *attempt) error {
		return c.conn.Invoke(a, method, req, reply, opts...)
	})
}

// authenticate trades a name and a password for a token. It does not need one
// itself, and may be repeated: a token more on the server hurts nobody.
func (c *caller) authenticate(ctx context.Context, method string, req, reply any) error {
	call := c.newCall(ctx, method, retry.Repeatable)
	call.first.anonymous = true
	return call.run(func(a *attempt) error {
		return c.conn.Invoke(a, method, req, reply, grpc.WaitForReady(true))
	})
}

// call is a unary call on its way through its attempts.
type call struct {
	ctx    context.Context
	tries  Tries
	safety retry.Safety
	first  attempt
}

func (c *caller) newCall(ctx context.Context, method string, safety retry.Safety) *call {
	return &call{ctx: ctx, tries: c.newTries(method), safety: safety, first: attempt{Context: ctx}}
}

// run makes attempts until one settles the call.
func (c *call) run(try func(*attempt) error) error {
	for a := &c.first; ; a = c.next() {
		if c.tries.isClosed() {
			return ErrClosed
		}
		err := try(a)
		if err == nil {
			c.tries.budget.Success()
			return nil
		}
		if err := c.settle(a, err); err != nil {
			return err
		}
	}
}

// next returns the record of another attempt. The one before keeps its own: an
// interceptor may have given up waiting for it while grpc has not.
func (c *call) next() *attempt {
	return &attempt{Context: c.ctx, anonymous: c.first.anonymous, avoid: c.tries.failed}
}

// settle decides what follows a failed attempt. It returns nil when it is time
// for another one, and otherwise the error that the call ends with.
func (c *call) settle(a *attempt, err error) error {
	ev := a.evidence(c.tries.method)
	class := c.tries.judge(retry.Classify(err, ev), a)
	switch retry.Decide(class, c.safety) {
	case retry.ReturnUnknown:
		return c.unknown(err)
	case retry.Refresh:
		if a.anonymous {
			return err
		}
		return c.tries.refresh(c.ctx, a, err)
	case retry.Again:
		return c.tries.again(c.ctx, class, a, err)
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
