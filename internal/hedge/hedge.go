// Package hedge sends calls that are overdue to a second endpoint, for the etcd client and for
// quorate.Channel.
//
// A call has one hedge at most, with a copy of the request and a reply of its own. The first
// result counts, and the other attempt is canceled. An error of the first endpoint ends the call at
// once if a repetition would fail too; after any other error the call waits for the second. An error
// of the second never ends the call: a lagging member may have less data than the first.
//
// Each attempt is linearizable and began after the call did, so the result is linearizable. User
// interceptors see the hedge like a retry that is concurrent with its primary attempt.
package hedge

import (
	"container/list"
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// Causes of the end of the attempt that is not needed.
var (
	ErrOutrun    = errors.New("another endpoint answered first")
	ErrNotNeeded = errors.New("the endpoint that was asked first answered")
)

// Hedger hedges the calls of a client within a budget. A call that is overdue while the budget is
// empty waits for a token. A hedge that wins gives its token back, so the calls that hang on a frozen
// endpoint follow one another, a few at a time; one that loses halves the budget, so that hedging
// stops where it does not help, for example when all endpoints are slow.
type Hedger struct {
	Budget *retry.Budget

	mu      sync.Mutex
	waiting list.List // elements are *candidate, the oldest first
	waits   atomic.Bool
}

// Call is the hedging state of a call. Until the call is overdue it costs neither a lock, a clock
// reading, a goroutine nor a timer.
type Call struct {
	// primary is the attempt that can be hedged now, nil if there is none. overdue is set
	// before primary is read for a hedge, and read after primary is cleared: an attempt that
	// ends without having been overdue needs no lock.
	primary atomic.Pointer[balancer.Attempt]
	overdue atomic.Bool

	mu      sync.Mutex
	spent   bool          // the call has had its hedge
	delayed *time.Timer   // for a policy's hedgingDelay
	place   *list.Element // among those that wait for the budget
	second  *Second       // primary's hedge, nil if there is none
}

// Second is the second attempt of a call. Its maker sets the exported fields.
type Second struct {
	*balancer.Attempt
	Send     func() error // makes the attempt
	Cancel   context.CancelCauseFunc
	Outrun   context.CancelCauseFunc // ends the first attempt
	Observer observe.Observer
	Event    func() observe.Hedge

	reply proto.Message
	done  chan struct{}
	err   error // the result, once done is closed
}

// Make makes the second attempt of a call, which avoids the endpoint of the first one, with these
// messages.
type Make func(req, reply proto.Message) *Second

// candidate is a call that is overdue.
type candidate struct {
	call       *Call
	first      *balancer.Attempt
	req, reply proto.Message
	second     Make
}

// Begin records an attempt of a call that may be hedged.
func (h *Hedger) Begin(c *Call, a *balancer.Attempt) {
	h.Budget.Deposit() // another read
	c.primary.Store(a)
	if h.waits.Load() {
		h.serve()
	}
}

// End returns the hedge of the attempt that has ended, nil if there is none.
func (h *Hedger) End(c *Call) *Second {
	c.primary.Store(nil)
	if !c.overdue.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.second
	c.second = nil
	if c.delayed != nil {
		c.delayed.Stop()
		c.delayed = nil
	}
	if c.place != nil {
		h.remove(c.place)
		c.place = nil
	}
	return s
}

// Sent reports whether the call has had its hedge.
func (c *Call) Sent() bool {
	if !c.overdue.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spent
}

// Overdue sends the call of an attempt to a second endpoint, after a pause, and once the budget allows
// it. The messages are those of the caller.
func (h *Hedger) Overdue(c *Call, first *balancer.Attempt, req, reply any, pause time.Duration, second Make) {
	c.overdue.Store(true)
	request, ok := req.(proto.Message)
	response, ok2 := reply.(proto.Message)
	if !ok || !ok2 || isWrapper(reflect.TypeOf(reply)) {
		return
	}
	d := &candidate{call: c, first: first, req: request, reply: response, second: second}
	c.mu.Lock()
	switch {
	case !d.isOpenLocked() || c.delayed != nil || c.place != nil:
	case pause > 0:
		c.delayed = time.AfterFunc(pause, func() {
			c.mu.Lock()
			if d.isOpenLocked() {
				c.place = h.add(d)
			}
			c.mu.Unlock()
			h.serve()
		})
	default:
		c.place = h.add(d)
	}
	c.mu.Unlock()
	h.serve()
}

// isWrapper reports whether a reply has its methods from a message in it, which a new one would not have.
func isWrapper(reply reflect.Type) bool {
	return reply.Kind() != reflect.Pointer || reply.Elem().Kind() != reflect.Struct ||
		slices.ContainsFunc(reflect.VisibleFields(reply.Elem()), func(f reflect.StructField) bool { return f.Anonymous && f.Type.Kind() == reflect.Interface })
}

// add lets a call wait for the budget.
func (h *Hedger) add(d *candidate) *list.Element {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waits.Store(true)
	return h.waiting.PushBack(d)
}

// remove removes a call that waits.
func (h *Hedger) remove(e *list.Element) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting.Remove(e)
	h.waits.Store(h.waiting.Len() > 0)
}

// serve sends the second attempts that the budget allows.
func (h *Hedger) serve() {
	for d := h.next(); d != nil; d = h.next() {
		if !d.hedge() {
			h.Budget.Refund()
		}
	}
}

// next returns the call that has waited longest, with a token taken for it.
func (h *Hedger) next() *candidate {
	h.mu.Lock()
	defer h.mu.Unlock()
	front := h.waiting.Front()
	if front == nil || !h.Budget.Take() {
		return nil
	}
	d, _ := h.waiting.Remove(front).(*candidate)
	h.waits.Store(h.waiting.Len() > 0)
	return d
}

// isOpenLocked reports whether the attempt goes on without a hedge.
func (d *candidate) isOpenLocked() bool { return d.call.primary.Load() == d.first && !d.call.spent }

// hedge sends the second attempt, unless the first has ended. The lock keeps the call from returning,
// after which the caller may change the request.
func (d *candidate) hedge() bool {
	c := d.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if !d.isOpenLocked() {
		return false // the place may be that of another attempt
	}
	c.place = nil
	// The first attempt may be writing its reply: only the type of the reply is read.
	reply, _ := reflect.New(reflect.TypeOf(d.reply).Elem()).Interface().(proto.Message)
	if !reply.ProtoReflect().IsValid() { // a dynamic message, whose Go type does not have its type
		reply = d.reply.ProtoReflect().New().Interface()
	}
	s := d.second(proto.Clone(d.req), reply)
	s.reply, s.done = reply, make(chan struct{})
	c.spent, c.second = true, s
	go s.run()
	return true
}

// Failed reports whether the attempt has ended with an error.
func (s *Second) Failed() bool { return pause.Closed(s.done) && s.err != nil }

func (s *Second) run() {
	s.err = s.Send()
	if s.Endpoint() != nil {
		s.Observer.HedgeSent(s.Event())
	}
	close(s.done)
	if s.err == nil {
		s.Outrun(ErrOutrun)
	}
}

// Conclude returns the result of a call whose first attempt has ended with err, while the second may
// still run: final says that err ends the call. It waits until ctx ends, or closed is closed, for which
// it returns errClosed.
func (h *Hedger) Conclude(ctx context.Context, s *Second, reply any, err error, final bool, closed <-chan struct{}, errClosed error) error {
	defer s.Cancel(nil)
	defer s.End()
	if err == nil || final {
		s.Cancel(ErrNotNeeded)
		h.Budget.Halve()
		return err
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		h.Budget.Halve()
		return status.FromContextError(ctx.Err()).Err()
	case <-closed:
		return errClosed
	}
	if s.err != nil {
		h.Budget.Halve()
		return err
	}
	h.Budget.Refund()
	into, _ := reply.(proto.Message)
	move(into, s.reply)
	if s.Endpoint() != nil { // else an interceptor has answered
		s.Observer.HedgeWon(s.Event())
	}
	h.serve()
	return nil
}

// Allowed reports whether a call with these options can be sent twice at the same time. It is
// false for options that return something to the caller, and for unknown ones without a method ReturnsNothing.
func Allowed(opts []grpc.CallOption) bool {
	for _, opt := range opts {
		switch opt.(type) {
		case grpc.EmptyCallOption, grpc.FailFastCallOption, grpc.StaticMethodCallOption,
			grpc.MaxRecvMsgSizeCallOption, grpc.MaxSendMsgSizeCallOption, grpc.MaxRetryRPCBufferSizeCallOption,
			grpc.CompressorCallOption, grpc.ContentSubtypeCallOption,
			grpc.PerRPCCredsCallOption, grpc.AuthorityOverrideCallOption, interface{ ReturnsNothing() }:
		default:
			return false
		}
	}
	return true
}

// move moves the contents of from to into; from must not be used afterwards.
func move(into, from proto.Message) {
	proto.Reset(into)
	to, of := into.ProtoReflect(), from.ProtoReflect()
	of.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		return true
	})
	to.SetUnknown(of.GetUnknown())
}
