package channel

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/hedge"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// hedge sends the call of an overdue attempt to a second endpoint, if that is allowed.
func (c *call) hedge(a *attempt) {
	policy := c.caller.config.HedgingFor(c.method)
	if !policy.Enabled() || !hedge.Allowed(c.opts) {
		return
	}
	c.caller.hedges.Overdue(&c.hedging, &a.Attempt, c.req, c.reply, policy.HedgingDelay-time.Since(a.Began()),
		func(req, reply proto.Message) *hedge.Second { return c.second(a, req, reply) })
}

// second makes the second attempt of the call.
func (c *call) second(a *attempt, req, reply proto.Message) *hedge.Second {
	s, first := new(attempt), a.endpoint()
	s.Avoid, s.AvoidStrictly = append(slices.Clone(a.Avoid), first), true
	c.start(s, true)
	if unsure := c.unsure(); unsure != nil {
		unsure.Store(true)
	}
	opts := slices.Clone(c.opts)
	return &hedge.Second{
		Attempt: &s.Attempt, Cancel: s.cancel, Outrun: a.cancel, Observer: c.caller.observer,
		Send: func() error {
			err := c.caller.conn.Invoke(s.ctx, c.method, req, reply, opts...)
			c.traceEnd(s, err)
			return err
		},
		Event: func() observe.Hedge {
			return observe.Hedge{Method: c.method, First: c.caller.name(first), Second: c.caller.name(s.endpoint())}
		},
	}
}

// conclude is called when the first attempt of a hedged call has ended; the second may still run. It
// returns the attempt that succeeded, nil if none did, and the error of the call.
func (c *call) conclude(a *attempt, err error, s *hedge.Second) (*balancer.Attempt, error) {
	final := err != nil && c.isFinal(a, err)
	result := c.caller.hedges.Conclude(c.first.caller, s, c.reply, err, final, c.caller.closed, ErrClosed)
	switch {
	case err == nil:
		return &a.Attempt, nil
	case result == nil:
		return s.Attempt, nil
	case !final && s.Failed():
		c.retrier().avoid(s.Endpoint())
	}
	return nil, result
}

// isFinal reports whether an error of the first attempt ends the call regardless of the
// second.
func (c *call) isFinal(a *attempt, err error) bool {
	ev, err := a.outcome(c.method, err)
	class := retry.Classify(err, ev)
	switch {
	case class == retry.Ended, class == retry.Closed:
		return true
	case retry.Decide(class, retry.Repeatable) != retry.Return:
		return false
	default:
		return !c.caller.config.HedgingFor(c.method).NonFatal(retry.CodeOf(err))
	}
}
