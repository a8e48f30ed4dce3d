package channel

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// call is a unary call on its way through its attempts.
type call struct {
	ctx        context.Context
	req, reply any
	opts       []grpc.CallOption

	tries  Tries
	safety retry.Safety
	traits traits
	first  attempt
	hedging
}

func (c *caller) newCall(ctx context.Context, method string, req, reply any, opts []grpc.CallOption) *call {
	return &call{
		ctx: ctx, req: req, reply: reply, opts: opts,
		tries:  c.newTries(method),
		safety: retry.SafetyOf(method, req),
		traits: c.traitsOf(method, req),
	}
}

// run makes attempts until one settles the call.
func (c *call) run() error {
	for a := &c.first; ; a = c.next() {
		if c.tries.isClosed() {
			return ErrClosed
		}
		err := c.try(a)
		if err == nil {
			c.tries.budget.Success()
			return nil
		}
		if err := c.settle(a, err); err != nil {
			return err
		}
	}
}

// try makes one attempt.
func (c *call) try(a *attempt) error {
	a.start(c.ctx, c.traits)
	defer a.release()
	err := c.send(a)
	if err == nil && c.traits.need == balancer.Full && c.tries.writes.learn(c.reply) {
		a.endpoint().RolesChanged()
	}
	return err
}

// send sends the attempt, with what watches over it while its answer is awaited.
func (c *call) send(a *attempt) error {
	switch {
	case c.traits.hedged:
		return c.sendHedged(a)
	case c.traits.prompt && c.safety == retry.Mutating:
		c.tries.writes.add(a)
		defer c.tries.writes.remove(a)
		return c.invoke(a)
	default:
		return c.invoke(a)
	}
}

func (c *call) invoke(a *attempt) error {
	return c.tries.conn.Invoke(a, c.tries.method, c.req, c.reply, c.opts...)
}

// next returns the record of another attempt. The one before keeps its own: an
// interceptor may have given up waiting for it while grpc has not.
func (c *call) next() *attempt {
	return c.tries.next(&attempt{anonymous: c.first.anonymous})
}

// settle decides what follows a failed attempt. It returns nil when it is time
// for another one, and otherwise the error that the call ends with.
func (c *call) settle(a *attempt, err error) error {
	ev, err := a.outcome(c.tries.method, err)
	class := c.tries.judge(retry.Classify(err, ev), a)
	switch retry.Decide(class, c.safety) {
	case retry.ReturnUnknown:
		return c.unknown(a, err)
	case retry.Refresh:
		if a.anonymous {
			return err
		}
		return c.tries.refresh(c.ctx, a, err)
	case retry.Again:
		return c.tries.again(c.ctx, class, a, err)
	case retry.Return:
		if class == retry.Closed && c.safety == retry.Mutating && ev.Sent {
			return c.unknown(a, err)
		}
	}
	return err
}

// unknown says that the call may have been executed. An error of the server's
// own that says so already stays as it is, because programs compare it.
func (c *call) unknown(a *attempt, err error) error {
	c.tries.observer.OutcomeUnknown(observe.UnknownOutcome{
		Method: c.tries.method, Endpoint: c.tries.name(a.endpoint()), Err: err,
	})
	var known rpctypes.EtcdError
	if errors.As(rpctypes.Error(err), &known) && retry.OutcomeOf(err) == retry.OutcomeUnknown {
		return err
	}
	return &retry.UnknownOutcomeError{Method: c.tries.method, Err: err}
}
