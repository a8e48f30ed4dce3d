package channel

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// hedging is the part of a read that may be sent to a second endpoint, when the
// balancer finds its answer overdue. Until then it costs a lock, and neither a
// goroutine nor a timer.
//
// A call has one hedge at most, with a copy of the request and a reply of its
// own. The first result counts, and the other attempt is cancelled. Of errors,
// those that would be met again end the call at once if they come from the first
// endpoint; after any other one the second is waited for. An error of the second
// never ends the call: an endpoint that lags behind may know less than the first.
//
// Each attempt is linearizable by itself, so the one that counts is: it began
// after the call did. Interceptors of the user see the hedge as they see a retry,
// but beside the attempt that it backs up.
type hedging struct {
	mu      sync.Mutex
	primary *attempt    // the one that can be hedged now, nil if there is none
	sent    time.Time   // when primary was
	delayed *time.Timer // for a policy's hedgingDelay
	spent   bool        // the call has had its hedge
	second  *second     // primary's hedge, nil if there is none
}

// second is the second attempt of a call.
type second struct {
	attempt
	call  *call
	rival *attempt
	first *balancer.Endpoint // where the rival went
	req   proto.Message
	reply proto.Message
	opts  []grpc.CallOption
	done  chan struct{}
	err   error // the result, once done is closed
}

var (
	errOutrun       = errors.New("another endpoint answered first")
	errNotNeeded    = errors.New("the endpoint that was asked first answered")
	errSameEndpoint = status.Error(codes.Canceled, "there is no second endpoint for a hedge")
)

// sendHedged sends an attempt that may be hedged, and returns the result that
// counts.
func (c *call) sendHedged(a *attempt) error {
	c.tries.hedges.Success() // another read
	a.call = c
	c.mu.Lock()
	c.primary, c.sent = a, time.Now()
	c.mu.Unlock()

	err := c.invoke(a)

	c.mu.Lock()
	s := c.second
	c.primary, c.second = nil, nil
	if c.delayed != nil {
		c.delayed.Stop()
		c.delayed = nil
	}
	c.mu.Unlock()
	if s == nil {
		return err
	}
	defer s.release()
	return c.conclude(a, err, s)
}

// conclude returns the result of a call whose first attempt has ended and whose
// second may not have.
func (c *call) conclude(a *attempt, err error, s *second) error {
	if err == nil || c.isFinal(a, err) {
		s.cancel(errNotNeeded)
		return err
	}
	select {
	case <-s.done:
	case <-c.ctx.Done():
		return status.FromContextError(c.ctx.Err()).Err()
	case <-c.tries.closed:
		return ErrClosed
	}
	if s.err != nil {
		c.tries.avoid(s.endpoint())
		return err
	}
	moveMessage(c.reply.(proto.Message), s.reply)
	c.tries.observer.HedgeWon(s.event())
	return nil
}

// isFinal reports whether the error of the first attempt ends the call, whatever
// the second one brings.
func (c *call) isFinal(a *attempt, err error) bool {
	ev, err := a.outcome(c.tries.method, err)
	class := retry.Classify(err, ev)
	switch {
	case class == retry.Ended, class == retry.Closed:
		return true
	case retry.Decide(class, retry.Repeatable) != retry.Return:
		return false
	default:
		return !c.tries.config.HedgingFor(c.tries.method).NonFatal(retry.CodeOf(err))
	}
}

// hedge sends the call of an attempt to a second endpoint, if that is allowed.
func (c *call) hedge(a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.primary != a || c.spent || c.delayed != nil {
		return
	}
	policy := c.tries.config.HedgingFor(c.tries.method)
	if !policy.Enabled() || !canBeDoubled(c.opts) {
		return
	}
	if wait := policy.HedgingDelay - time.Since(c.sent); wait > 0 {
		c.delayed = time.AfterFunc(wait, func() { c.hedgeNow(a) })
		return
	}
	c.sendSecond(a)
}

// hedgeNow is called when the policy's delay is over.
func (c *call) hedgeNow(a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.primary == a && !c.spent {
		c.sendSecond(a)
	}
}

// sendSecond needs the lock: while it holds it the caller, who may change the
// request after the call, has not been answered.
func (c *call) sendSecond(a *attempt) {
	req, ok := c.req.(proto.Message)
	if !ok {
		return
	}
	if _, ok := c.reply.(proto.Message); !ok || !c.tries.hedges.Take() {
		return
	}
	// The first attempt may be writing to its reply: of that nothing is read but its type.
	reply, _ := reflect.New(reflect.TypeOf(c.reply).Elem()).Interface().(proto.Message)
	s := &second{
		call: c, rival: a, first: a.endpoint(),
		req: proto.Clone(req), reply: reply,
		opts: slices.Clone(c.opts), done: make(chan struct{}),
	}
	s.start(c.ctx, c.traits)
	s.Observer = s
	s.Avoid = append(slices.Clone(a.Avoid), s.first)
	c.spent, c.second = true, s
	go s.run()
}

func (s *second) run() {
	t := &s.call.tries
	s.err = t.conn.Invoke(&s.attempt, t.method, s.req, s.reply, s.opts...)
	close(s.done)
	if s.err == nil {
		s.rival.cancel(errOutrun)
	}
}

// Picked implements balancer.Observer.
func (s *second) Picked(ep *balancer.Endpoint) error {
	again := s.endpoint() != nil
	if err := s.attempt.Picked(ep); err != nil {
		return err
	}
	if ep == s.first {
		return errSameEndpoint
	}
	if !again {
		s.call.tries.observer.HedgeSent(s.event())
	}
	return nil
}

func (s *second) event() observe.Hedge {
	t := &s.call.tries
	return observe.Hedge{Method: t.method, First: t.name(s.first), Second: t.name(s.endpoint())}
}

// canBeDoubled reports whether a call with these options can be made twice at the
// same time. Options that bring something back for the caller cannot be shared,
// and of those that are not known it is not known.
func canBeDoubled(opts []grpc.CallOption) bool {
	for _, opt := range opts {
		switch opt.(type) {
		case grpc.EmptyCallOption, grpc.FailFastCallOption, grpc.StaticMethodCallOption,
			grpc.MaxRecvMsgSizeCallOption, grpc.MaxSendMsgSizeCallOption, grpc.MaxRetryRPCBufferSizeCallOption,
			grpc.CompressorCallOption, grpc.ContentSubtypeCallOption,
			grpc.PerRPCCredsCallOption, grpc.AuthorityOverrideCallOption:
		default:
			return false
		}
	}
	return true
}

// moveMessage makes into what from is, which must not be used after that.
func moveMessage(into, from proto.Message) {
	proto.Reset(into)
	to, of := into.ProtoReflect(), from.ProtoReflect()
	of.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		return true
	})
	to.SetUnknown(of.GetUnknown())
}
