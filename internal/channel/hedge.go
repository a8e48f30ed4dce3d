package channel

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/double"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// hedging is the hedging state of a read: the read may be sent to a second endpoint when
// the balancer finds it overdue. Until then it costs neither a lock, a clock reading, a
// goroutine nor a timer.
//
// A call has one hedge at most, with a copy of the request and a reply of its own. The
// first result counts, and the other attempt is cancelled. An error of the first endpoint
// ends the call at once if a repetition would fail too; after any other error the call
// waits for the second. An error of the second never ends the call: a lagging member may
// have less data than the first.
//
// Each attempt is linearizable and began after the call did, so the result is
// linearizable. User interceptors see the hedge like a retry that is concurrent with its
// primary attempt.
type hedging struct {
	// primary is the attempt that can be hedged now, nil if there is none. overdue is set
	// before primary is read for a hedge, and read after primary is cleared: an attempt that
	// ends without having been overdue needs no lock.
	primary atomic.Pointer[attempt]
	overdue atomic.Bool

	mu      sync.Mutex
	spent   bool        // the call has had its hedge
	delayed *time.Timer // for a policy's hedgingDelay
	second  *second     // primary's hedge, nil if there is none
}

// second is the second attempt of a call.
type second struct {
	attempt
	call  *call
	rival *attempt
	first *balancer.Endpoint // the endpoint of the primary attempt
	req   proto.Message
	reply proto.Message
	opts  []grpc.CallOption
	done  chan struct{}
	err   error // the result, once done is closed
}

var (
	errOutrun    = errors.New("another endpoint answered first")
	errNotNeeded = errors.New("the endpoint that was asked first answered")
)

// begin records an attempt that may be hedged.
func (h *hedging) begin(c *call, a *attempt) {
	c.caller.hedges.Deposit() // another read
	a.call = c
	h.primary.Store(a)
}

// end returns the hedge of the attempt that has ended, nil if there is none.
func (h *hedging) end() *second {
	h.primary.Store(nil)
	if !h.overdue.Load() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.second
	h.second = nil
	if h.delayed != nil {
		h.delayed.Stop()
		h.delayed = nil
	}
	return s
}

// conclude returns the result of a call whose first attempt has ended; the second may still
// run. A hedge that wins costs no token; one that loses halves the budget, so that hedging
// stops where it does not help, for example when all members are slow.
func (c *call) conclude(a *attempt, err error, s *second) error {
	defer s.release()
	client := c.caller.client
	if err == nil || c.isFinal(a, err) {
		s.cancel(errNotNeeded)
		client.hedges.Halve()
		return err
	}
	select {
	case <-s.done:
	case <-c.ctx().Done():
		client.hedges.Halve()
		return status.FromContextError(c.ctx().Err()).Err()
	case <-client.closed:
		return ErrClosed
	}
	if s.err != nil {
		client.hedges.Halve()
		c.retrier().avoid(s.endpoint())
		return err
	}
	client.hedges.Refund()
	double.Move(c.reply.(proto.Message), s.reply)
	client.observer.HedgeWon(s.event())
	return nil
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

// hedge sends the call of an attempt to a second endpoint, if that is allowed.
func (c *call) hedge(a *attempt) {
	h := &c.hedging
	h.overdue.Store(true)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.primary.Load() != a || h.spent || h.delayed != nil {
		return
	}
	policy := c.caller.config.HedgingFor(c.method)
	if !policy.Enabled() || !double.Allowed(c.opts) {
		return
	}
	if wait := policy.HedgingDelay - time.Since(a.Began()); wait > 0 {
		h.delayed = time.AfterFunc(wait, func() { c.hedgeNow(a) })
		return
	}
	c.sendSecond(a)
}

// hedgeNow is called when the policy's delay is over.
func (c *call) hedgeNow(a *attempt) {
	h := &c.hedging
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.primary.Load() == a && !h.spent {
		c.sendSecond(a)
	}
}

// sendSecond needs the lock: it keeps the call from returning, after which the caller may
// change the request.
func (c *call) sendSecond(a *attempt) {
	req, ok := c.req.(proto.Message)
	if !ok {
		return
	}
	if _, ok := c.reply.(proto.Message); !ok || !c.caller.hedges.Take() {
		return
	}
	// The first attempt may be writing its reply: only the type of the reply is read.
	reply, _ := reflect.New(reflect.TypeOf(c.reply).Elem()).Interface().(proto.Message)
	s := &second{
		call: c, rival: a, first: a.endpoint(),
		req: proto.Clone(req), reply: reply,
		opts: slices.Clone(c.opts), done: make(chan struct{}),
	}
	s.Avoid, s.AvoidStrictly = append(slices.Clone(a.Avoid), s.first), true
	c.startAttempt(&s.attempt, true)
	c.hedging.spent, c.hedging.second = true, s
	go s.run()
}

func (s *second) run() {
	c := s.call
	s.err = c.caller.conn.Invoke(s.ctx, c.method, s.req, s.reply, s.opts...)
	c.traceEnd(&s.attempt, s.err)
	if s.endpoint() != nil {
		c.caller.observer.HedgeSent(s.event())
	}
	close(s.done)
	if s.err == nil {
		s.rival.cancel(errOutrun)
	}
}

func (s *second) event() observe.Hedge {
	c := s.call
	return observe.Hedge{Method: c.method, First: c.caller.name(s.first), Second: c.caller.name(s.endpoint())}
}
