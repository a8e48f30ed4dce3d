package quorate

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/hedge"
	"github.com/quorate/quorate/keepalive"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// hedgeBudget bounds hedges: a burst of 5, then 5 % of the calls that may be hedged.
var hedgeBudget = retry.Throttling{MaxTokens: 5, TokenRatio: 0.05}

// hedger sends a second attempt of calls that are overdue, and makes those again elsewhere that the
// policy cuts, if they may be executed twice.
type hedger struct {
	hedge.Hedger
	repeatable map[string]bool // "/pkg.Service/Method", or "/pkg.Service/" for all methods
	once       map[string]bool
	timeout    time.Duration // of a call with all of its attempts, that of keepalive.Calls
	observer   observe.Observer
}

func newHedger(calls keepalive.Calls, o observe.Observer) *hedger {
	return &hedger{
		Hedger:     hedge.Hedger{Budget: retry.NewBudget(hedgeBudget)},
		repeatable: set(calls.Repeatable), once: set(append(methodsOf(calls.Base), calls.Once...)),
		timeout: cmp.Or(calls.Timeout, 30*time.Second), observer: cmp.Or[observe.Observer](o, observe.None{}),
	}
}

func set(methods []string) map[string]bool {
	s := make(map[string]bool, len(methods))
	for _, m := range methods {
		s["/"+strings.TrimPrefix(m, "/")] = true
	}
	return s
}

// allowed reports whether a method may be executed twice. Its own name goes before that of
// its service.
func (h *hedger) allowed(method string) bool {
	return h.repeatable[method] || !h.once[method] && h.repeatable[method[:strings.LastIndexByte(method, '/')+1]]
}

func (h *hedger) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if !h.allowed(method) || !hedge.Allowed(opts) {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	opts = slices.Clip(opts) // an interceptor may append to it, in both attempts
	call := &hedgedCall{
		hedger: h, ctx: ctx, method: method, req: req, reply: reply,
		invoke: func(ctx context.Context, req, reply any) error {
			return invoke(ctx, method, req, reply, cc, opts...)
		},
	}
	return call.run()
}

// hedgedCall is a call that may be executed twice.
type hedgedCall struct {
	*hedger
	ctx        context.Context
	method     string
	req, reply any
	invoke     func(ctx context.Context, req, reply any) error

	hedging hedge.Call
	failed  []*balancer.Endpoint // on which it was cut
}

// run makes attempts until one is not cut. One that is cut adds no load when it is made again, so the
// first is free; others take from the budget of hedges.
func (c *hedgedCall) run() error {
	for ctx := c.ctx; ; {
		a, err := c.attempt(ctx)
		reason := a.cutReason(err)
		if reason == nil {
			return err
		}
		if len(c.failed) > 0 && !c.Budget.Take() {
			return reason
		}
		c.failed = append(c.failed, a.Endpoint())
		if len(c.failed) == 1 {
			bounded, cancel := context.WithDeadline(c.ctx, a.Began().Add(c.timeout))
			defer cancel()
			ctx = bounded
		}
	}
}

// attempt makes an attempt, and its hedge if it is overdue. It returns the result that counts.
func (c *hedgedCall) attempt(ctx context.Context) (*attempt, error) {
	a := &attempt{overdue: c.hedge}
	a.start(ctx)
	defer a.cancel(nil)
	a.Avoid = append(slices.Clip(a.Avoid), c.failed...)
	c.Begin(&c.hedging, &a.Attempt)
	err := c.invoke(balancer.WithAttempt(a.ctx, &a.Attempt), c.req, c.reply)
	s := c.End(&c.hedging)
	if s == nil {
		return a, err
	}
	return a, c.Conclude(ctx, s, c.reply, err, err != nil && !a.isLost(err), nil, nil)
}

// hedge sends the second attempt of an overdue one.
func (c *hedgedCall) hedge(first *attempt) {
	c.Overdue(&c.hedging, &first.Attempt, c.req, c.reply, 0, func(req, reply proto.Message) *hedge.Second {
		s, from := new(attempt), first.Endpoint()
		s.start(first.caller)
		s.Avoid, s.AvoidStrictly = append(slices.Clip(first.Avoid), from), true
		return &hedge.Second{
			Attempt: &s.Attempt, Cancel: s.cancel, Outrun: first.cancel, Observer: c.observer,
			Send: func() error { return c.invoke(balancer.WithAttempt(s.ctx, &s.Attempt), req, reply) },
			Event: func() observe.Hedge {
				return observe.Hedge{Method: c.method, First: from.Address(), Second: s.Endpoint().Address()}
			},
		}
	})
}
