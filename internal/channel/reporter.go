package channel

import (
	"time"

	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
	"github.com/quorate/quorate/retry"
)

// reporter reports calls to the CallObserver and the Tracer. It is nil if there is
// neither.
type reporter struct {
	calls observe.CallObserver // nil if there is none
	trace observe.Tracer       // nil if there is none
}

func newReporter(o observe.Observer) *reporter {
	r := &reporter{calls: observe.Calls(o), trace: observe.Trace(o)}
	if r.calls == nil && r.trace == nil {
		return nil
	}
	return r
}

// run executes a call and reports its end.
func (r *reporter) run(c *call) error {
	if r.trace != nil { // attempts get the context of the Tracer
		c.first.caller, c.trace = r.trace.StartCall(c.first.caller, c.method) //nolint:fatcontext // of this call alone
	}
	begun := time.Now()
	err := c.run()
	end := observe.Call{
		Method: c.method, Err: err, Took: time.Since(begun), Hedged: c.hedging.Sent(),
	}
	if f := c.failures; f != nil {
		end.Retries, end.Paused = f.retries, f.paused
	}
	if r.calls != nil {
		r.calls.Called(end)
	}
	if c.trace != nil {
		c.trace.End(end)
	}
	return err
}

// start starts an attempt of the call, and reports it.
func (c *call) start(a *attempt, hedge bool) {
	ctx := c.first.caller
	if c.trace != nil {
		ctx, a.trace = c.trace.StartAttempt(ctx, hedge)
	}
	c.caller.start(ctx, a, &c.properties)
}

// traceEnd reports the end of the attempt.
func (c *call) traceEnd(a *attempt, err error) {
	if a.trace != nil {
		a.trace.End(c.caller.name(a.endpoint()), err)
	}
}

// Inspect fills in the channel's part: endpoints, calls and budgets.
func (c *Channel) Inspect(o introspect.Options, into *introspect.Client) {
	c.inspector.Inspect(c.monitor, o, into)
	into.Calls.InFlight = int(c.running.Load())
	of := func(name string, b *retry.Budget) introspect.Budget {
		left, limit := b.Left()
		return introspect.Budget{Name: name, Left: left, Max: limit}
	}
	into.Budgets = append([]introspect.Budget{
		of("retry", c.budget), of("stream retry", c.streams.budget), of("hedge", c.hedges.Budget),
	}, into.Budgets...)
}
