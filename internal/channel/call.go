package channel

import (
	"context"
	"sync/atomic"

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
	properties properties
	retrier    Retrier
	first      attempt
	hedging    hedging
}

func (c *Caller) newCall(ctx context.Context, method string, req, reply any, opts []grpc.CallOption) *call {
	call := &call{
		ctx: ctx, req: req, reply: reply, opts: opts,
		retrier:    c.newRetrier(method),
		properties: c.propertiesOf(method, req),
	}
	for _, opt := range opts {
		if report, ok := opt.(reportAmbiguous); ok {
			call.retrier.ambiguous = report.to
		}
	}
	return call
}

// reportAmbiguous is the call option of ReportAmbiguous.
type reportAmbiguous struct {
	grpc.EmptyCallOption
	to *atomic.Bool
}

// ReportAmbiguous has a call set a flag if an attempt before the last one may have been
// executed. The last one's result alone does not tell: a LeaseRevoke that was repeated
// after a broken connection finds the lease gone.
func ReportAmbiguous(to *atomic.Bool) grpc.CallOption { return reportAmbiguous{to: to} }

// run makes attempts until one settles the call.
func (c *call) run() error {
	c.retrier.c.running.Add(1)
	defer c.retrier.c.running.Add(-1)
	c.retrier.c.budget.Deposit() // another call
	for a := &c.first; ; a = c.next() {
		if c.retrier.c.isClosed() {
			return ErrClosed
		}
		err := c.try(a)
		c.retrier.failedOver(a)
		if err == nil {
			return nil
		}
		if err := c.settle(a, err); err != nil {
			return err
		}
	}
}

// try makes one attempt.
func (c *call) try(a *attempt) error {
	a.start(c.ctx, c.properties)
	defer a.release()
	err := c.send(a)
	if err == nil && c.properties.need == balancer.Full && c.retrier.c.writes.learn(c.reply) && !c.retrier.c.knowsLeader() {
		a.endpoint().RolesChanged()
	}
	return err
}

// send sends the attempt, with what watches over it while its answer is awaited.
func (c *call) send(a *attempt) error {
	switch {
	case c.properties.hedged:
		return c.sendHedged(a)
	case c.properties.prompt && c.properties.write:
		c.retrier.c.writes.add(a)
		defer c.retrier.c.writes.remove(a)
		return c.invoke(a)
	default:
		return c.invoke(a)
	}
}

func (c *call) invoke(a *attempt) error {
	return c.retrier.c.conn.Invoke(a.ctx, c.retrier.method, c.req, c.reply, c.opts...)
}

// next returns another attempt. The one before keeps its own record: an interceptor may
// have given up waiting for it while grpc has not.
func (c *call) next() *attempt {
	return c.retrier.next(&attempt{anonymous: c.first.anonymous})
}

// settle decides what follows a failed attempt. It returns nil when it is time for another
// one, and otherwise the error that the call ends with.
func (c *call) settle(a *attempt, err error) error {
	ev, err := a.outcome(c.retrier.method, err)
	class := c.retrier.correct(retry.Classify(err, ev), a)
	switch retry.Decide(class, c.properties.safety) {
	case retry.ReturnUnknown:
		return c.unknown(a, err)
	case retry.Refresh:
		if a.anonymous {
			return err
		}
		return c.retrier.refresh(c.ctx, a, err)
	case retry.Again:
		return c.retrier.again(c.ctx, class, a, err)
	case retry.Return:
		if class == retry.Closed && c.properties.safety == retry.Mutating && ev.Sent {
			return c.unknown(a, err)
		}
	}
	return err
}

// unknown says that the call may have been executed. An error of the server's own that says
// so already stays as it is, because programs compare it.
func (c *call) unknown(a *attempt, err error) error {
	r := &c.retrier
	r.c.observer.OutcomeUnknown(observe.UnknownOutcome{Method: r.method, Endpoint: r.c.name(a.endpoint()), Err: err})
	if isEtcds(err) && retry.OutcomeOf(err) == retry.OutcomeUnknown {
		return err
	}
	return &retry.UnknownOutcomeError{Method: r.method, Err: err}
}
