package quorate

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/double"
	"github.com/quorate/quorate/keepalive"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// hedgeBudget bounds hedges: a burst of 5, then 5 % of the calls that may be hedged.
var hedgeBudget = retry.Throttling{MaxTokens: 5, TokenRatio: 0.05}

// hedger sends a second attempt of calls that are overdue, if they may be executed twice.
type hedger struct {
	repeatable map[string]bool // "/pkg.Service/Method", or "/pkg.Service/" for all methods
	once       map[string]bool
	budget     *retry.Budget
	observer   observe.Observer
}

func newHedger(calls keepalive.Calls, o observe.Observer) *hedger {
	if o == nil {
		o = observe.None{}
	}
	return &hedger{repeatable: set(calls.Repeatable), once: set(calls.Once), budget: retry.NewBudget(hedgeBudget), observer: o}
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
	if h.repeatable[method] || h.once[method] {
		return h.repeatable[method]
	}
	return h.repeatable[method[:strings.LastIndexByte(method, '/')+1]]
}

func (h *hedger) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	request, ok := req.(proto.Message)
	answer, ok2 := reply.(proto.Message)
	if !ok || !ok2 || !h.allowed(method) || !double.Allowed(opts) {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	h.budget.Deposit()
	opts = slices.Clip(opts) // an interceptor may append to it, in both attempts
	call := &hedgedCall{
		hedger: h, method: method, ctx: ctx, req: request, replyType: reflect.TypeOf(answer).Elem(),
		invoke: func(ctx context.Context, req, reply proto.Message) error {
			return invoke(ctx, method, req, reply, cc, opts...)
		},
	}
	return call.run(answer)
}

var (
	errOutrun    = errors.New("another backend answered first")
	errNotNeeded = errors.New("the backend that was asked first answered")
)

// hedgedCall is a call that may have a second attempt. The first runs on the caller's
// goroutine; the second has a request and a reply of its own.
type hedgedCall struct {
	*hedger
	method    string
	ctx       context.Context
	req       proto.Message
	replyType reflect.Type
	invoke    func(ctx context.Context, req, reply proto.Message) error

	first  balancer.Attempt
	cancel context.CancelCauseFunc // ends the first attempt

	mu     sync.Mutex
	over   bool // the first attempt has ended
	second *second
}

// second is the second attempt of a call.
type second struct {
	balancer.Attempt
	reply  proto.Message
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error // the result, once done is closed
}

var _ balancer.Watcher = (*hedgedCall)(nil)

// run makes the call and returns the result that counts.
func (c *hedgedCall) run(reply proto.Message) error {
	var ctx context.Context
	ctx, c.cancel = context.WithCancelCause(c.ctx)
	defer c.cancel(nil)
	c.first.Watcher = c
	err := c.invoke(balancer.WithAttempt(ctx, &c.first), c.req, reply)

	c.mu.Lock()
	c.over = true
	s := c.second
	c.mu.Unlock()
	reason := context.Cause(ctx)
	if err != nil && reason != nil && c.ctx.Err() == nil && !errors.Is(reason, errOutrun) {
		err = status.Error(codes.Unavailable, reason.Error())
	}
	if s == nil {
		return err
	}
	if err == nil || reason == nil && status.Code(err) != codes.Unavailable {
		s.cancel(errNotNeeded)
		c.budget.Halve()
		return err
	}
	<-s.done // at the latest when c.ctx ends
	s.cancel(nil)
	if s.err != nil {
		c.budget.Halve()
		return err
	}
	c.budget.Refund()
	c.observer.HedgeWon(c.event(s))
	double.Move(reply, s.reply)
	return nil
}

// Overdue implements balancer.Watcher.
func (c *hedgedCall) Overdue() { c.hedge() }

// Cut implements balancer.Watcher: the first attempt ends, and the second goes elsewhere.
func (c *hedgedCall) Cut(reason error) {
	c.hedge()
	c.cancel(reason)
}

// hedge sends the second attempt, if there was none and the budget allows it.
func (c *hedgedCall) hedge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	// While the lock is held and the first attempt goes on, the caller cannot change the request.
	if c.over || c.second != nil || !c.budget.Take() {
		return
	}
	reply, _ := reflect.New(c.replyType).Interface().(proto.Message)
	s := &second{reply: reply, done: make(chan struct{})}
	s.Avoid, s.AvoidStrictly = []*balancer.Endpoint{c.first.Endpoint()}, true
	var ctx context.Context
	ctx, s.cancel = context.WithCancelCause(c.ctx)
	c.second = s
	req := proto.Clone(c.req)
	go func() {
		defer close(s.done)
		s.err = c.invoke(balancer.WithAttempt(ctx, &s.Attempt), req, s.reply)
		if s.Endpoint() != nil {
			c.observer.HedgeSent(c.event(s))
		}
		if s.err == nil {
			c.cancel(errOutrun)
		}
	}()
}

func (c *hedgedCall) event(s *second) observe.Hedge {
	return observe.Hedge{Method: c.method, First: c.first.Endpoint().Address(), Second: s.Endpoint().Address()}
}
