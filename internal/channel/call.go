package channel

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/hedge"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// call is a unary call with its attempts. A call whose first attempt succeeds allocates only
// this record, which includes the attempt, and the attempt's context.
type call struct {
	caller     *Caller
	method     string
	req, reply any
	opts       []grpc.CallOption
	properties properties
	first      attempt // its caller is the context of the call
	hedging    hedge.Call
	failures   *Retrier // nil before the first, see retrier

	trace observe.CallTrace // nil if there is no CallObserver or Tracer
}

// retrier returns the call's Retrier.
func (c *call) retrier() *Retrier {
	if c.failures == nil {
		c.failures = c.caller.Retrier(c.method)
		for _, opt := range c.opts {
			if report, ok := opt.(reportAmbiguous); ok {
				c.failures.ambiguous = report.to
			}
		}
	}
	return c.failures
}

// reportAmbiguous is the call option of ReportAmbiguous.
type reportAmbiguous struct {
	grpc.EmptyCallOption
	to *atomic.Bool
}

// ReportAmbiguous sets a flag if an attempt before the last one may have been executed.
// The last result alone does not show that: a LeaseRevoke that is repeated after a broken
// connection fails because the lease is gone.
func ReportAmbiguous(to *atomic.Bool) grpc.CallOption { return reportAmbiguous{to: to} }

// repeatable is the call option of Repeatable.
type repeatable struct {
	grpc.EmptyCallOption
	unsure *atomic.Bool
}

// Repeatable says that a Txn may be sent any number of times, since its comparisons let at most one execution
// write: the Txn is hedged, cut and repeated like a read. It sets unsure if an attempt may have been executed, or
// may yet be, other than the one whose response is returned.
func Repeatable(unsure *atomic.Bool) grpc.CallOption { return repeatable{unsure: unsure} }

// allowRepeats applies the option of Repeatable, if the call has it.
func (c *call) allowRepeats() {
	for i, opt := range c.opts {
		if r, ok := opt.(repeatable); ok {
			c.opts = slices.Delete(slices.Clone(c.opts), i, i+1)
			c.retrier().ambiguous = r.unsure
			c.properties.safety, c.properties.write = retry.Repeatable, false
			c.properties.shape, c.properties.hedged, c.properties.prompt = shapeRepeatableTxn, true, true
			return
		}
	}
}

// unsure returns the flag of Repeatable, nil for other calls.
func (c *call) unsure() *atomic.Bool {
	if c.properties.shape != shapeRepeatableTxn {
		return nil
	}
	return c.failures.ambiguous
}

// run makes attempts until the call is complete.
func (c *call) run() error {
	c.caller.running.Add(1)
	defer c.caller.running.Add(-1)
	c.caller.budget.Deposit() // another call
	for a := &c.first; ; a = c.next() {
		if err := c.begin(a); err != nil {
			return err
		}
		err := c.invoke(a)
		if a.executions.Load() > 1 && c.retrier().ambiguous != nil {
			c.failures.ambiguous.Store(true)
		}
		if c.failures != nil {
			c.failures.failedOver(a)
		}
		if err == nil {
			return nil
		}
		failed := time.Now()
		err = c.settle(a, err)
		c.failures.paused += time.Since(failed)
		if err != nil {
			return err
		}
	}
}

// begin starts an attempt, and its hedging. It first fetches a token if one is required and missing.
func (c *call) begin(a *attempt) error {
	if pause.Closed(c.caller.closed) {
		return ErrClosed
	}
	if !a.anonymous && c.caller.tokens.isMissing() {
		if err := c.caller.fetchToken(c.first.caller); err != nil {
			return err
		}
	}
	c.start(a, false)
	if c.properties.hedged {
		a.call = c
		c.caller.hedges.Begin(&c.hedging, &a.Attempt)
	}
	return nil
}

// invoke makes an attempt that has begun, and returns its result, or that of its hedge.
func (c *call) invoke(a *attempt) error {
	defer a.release() // also if an interceptor panics
	err := c.caller.conn.Invoke(a.ctx, c.method, c.req, c.reply, c.opts...)
	if a.trace != nil {
		c.traceEnd(a, err)
	}
	answered := &a.Attempt
	if c.properties.hedged {
		if s := c.caller.hedges.End(&c.hedging); s != nil {
			answered, err = c.conclude(a, err, s)
		}
	}
	if err != nil {
		return err
	}
	r, ok := c.reply.(withHeader)
	if ok && r.GetHeader() == nil && strings.HasPrefix(c.method, kvMethods) {
		addHeader(r)
	}
	if !c.properties.hedged {
		c.caller.large.learn(c.req, c.reply)
	}
	if c.properties.need == balancer.Full {
		if ok {
			c.caller.learnTerm(answered, r.GetHeader().GetRaftTerm())
		}
		if t := a.token.Load(); t != nil && !t.accepted.Load() {
			t.accepted.Store(true)
		}
	}
	return nil
}

// kvMethods begins the names of the methods whose replies always have a header from etcd: programs read it without a check.
const kvMethods = "/etcdserverpb.KV/"

// withHeader is a reply of etcd's.
type withHeader interface {
	proto.Message
	GetHeader() *pb.ResponseHeader
}

// addHeader gives a reply without a header an empty one.
func addHeader(r withHeader) {
	m := r.ProtoReflect()
	m.Mutable(m.Descriptor().Fields().ByName("header"))
}

// next returns another attempt. The previous one keeps its record: gRPC may still use it
// after an interceptor has returned.
func (c *call) next() *attempt {
	r := c.retrier()
	r.retries++
	return r.next(&attempt{anonymous: c.first.anonymous})
}

// settle handles a failed attempt. It returns nil when it is time for another one, and
// otherwise the final error of the call.
func (c *call) settle(a *attempt, err error) error {
	ev, err := a.outcome(c.method, err)
	r := c.retrier()
	class := c.classOf(a, err, ev)
	switch retry.Decide(class, c.properties.safety) {
	case retry.ReturnUnknown:
		return c.unknown(a, err)
	case retry.Refresh:
		if add, ok := c.req.(*pb.AuthUserAddRequest); a.anonymous || ok && add.GetName() == "" {
			return err // the request is refused, not its token
		}
		return r.refresh(c.first.caller, a, err)
	case retry.Again:
		return r.again(c.first.caller, class, a, err)
	case retry.Return:
		if class == retry.Closed && c.properties.safety == retry.Mutating && ev.Sent {
			return c.unknown(a, err)
		}
	}
	return err
}

// classOf returns the class of a failed attempt. Interceptors of the program may call any number of times, and return any
// error. An attempt that failed without a status, and without a call by them, sent nothing. A write stays ambiguous if one
// of their calls may have been executed, whatever error they return.
func (c *call) classOf(a *attempt, err error, ev retry.Evidence) retry.Class {
	class := c.retrier().correct(retry.Classify(err, ev), a, err)
	executed, unknown := a.executions.Load() > 0, retry.OutcomeOfAttempt(err, ev) == retry.OutcomeUnknown
	switch {
	case class == retry.Ambiguous && !a.called.Load() && hasNoStatus(err):
		return retry.Definite
	case (executed || unknown) && c.failures.ambiguous != nil:
		c.failures.ambiguous.Store(true)
	case executed && !unknown && c.properties.safety == retry.Mutating:
		return retry.Ambiguous
	}
	return class
}

// unknown returns the error of a call that may have been executed. A server error that
// already means this is returned unchanged, because programs compare it.
func (c *call) unknown(a *attempt, err error) error {
	if a.executions.Load() <= 1 && isTooLarge(c.req, err) {
		return &retry.NotSentError{Err: err}
	}
	c.caller.observer.OutcomeUnknown(observe.UnknownOutcome{Method: c.method, Endpoint: c.caller.name(a.endpoint()), Err: err})
	if isFromEtcd(err) && retry.OutcomeOf(err) == retry.OutcomeUnknown {
		return err
	}
	return &retry.UnknownOutcomeError{Method: c.method, Err: err}
}
