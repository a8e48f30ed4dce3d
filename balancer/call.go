package balancer

import (
	"cmp"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

// call is an attempt of a call, from its pick to its end.
type call struct {
	ctx     context.Context // gRPC's
	method  string          // full name
	conn    *subConn
	attempt *Attempt
	stat    *stat
	start   health.Moment
	// patience is the silence that was unusual for its shape when it began.
	patience time.Duration

	shard *shard // nil for a stream
	// Guarded by its lock:
	next, prev *call
	suspectAt  health.Moment // when its silence becomes suspicious
	overdue    bool          // Overdue was called
}

// begin records a picked attempt.
func (p *policy) begin(ctx context.Context, s *subConn, info Call, a *Attempt) *call {
	ep, c, now := s.ep, &a.first, health.Now()
	if !a.flags.add(flagBegun) {
		c = new(call) // for example when gRPC moves a call to another connection: the first may still be in use
	}
	c.ctx, c.method, c.conn, c.attempt = ctx, info.Method, s, a
	c.stat, c.start = ep.latency.known(info.Shape), health.MomentOf(now)
	if c.stat == nil {
		c.stat = ep.latency.get(info.Shape, &p.shapes)
	}
	if info.Conn == Calls {
		ep.running.Add(1)
		ep.add(c, now)
	}
	if a.Stream {
		ep.addStream(c, now)
	}
	return c
}

// info returns a call of the method as strategies and observers see it.
func (a *Attempt) info(method string) Call {
	return Call{Method: method, Need: a.Need, Conn: a.class(), Shape: cmp.Or(a.Shape, method)}
}

func (c *call) isWrite() bool { return c.attempt.Write }

// deadline returns when the call's context ends, the zero time if it has no deadline.
func (c *call) deadline() time.Time {
	t, _ := c.ctx.Deadline()
	return t
}

// ending holds the function that gRPC calls once at the end of a pick. It is pooled,
// because a function for each pick would be an allocation.
type ending struct {
	call *call
	end  func(balancer.DoneInfo)
}

var endings sync.Pool

// whenDone returns the Done function of the pick.
func (c *call) whenDone() func(balancer.DoneInfo) {
	e, _ := endings.Get().(*ending)
	if e == nil {
		e = new(ending)
		e.end = e.done
	}
	e.call = c
	return e.end
}

func (e *ending) done(info balancer.DoneInfo) {
	c := e.call
	if c == nil {
		return // gRPC called it before
	}
	e.call = nil
	endings.Put(e)
	c.end(info)
}

var errNotSent = status.Error(codes.Unavailable, "the connection was lost before anything was sent")

// end handles gRPC's Done of the attempt. A zero DoneInfo means that the connection was
// lost before anything was sent.
func (c *call) end(info balancer.DoneInfo) {
	ep, a := c.conn.ep, c.attempt
	p, isCall := ep.policy, a.class() == Calls
	answered := info.BytesSent && (info.Err == nil || (info.BytesReceived && !endedHere(info.Err)))
	if isCall {
		ep.running.Add(-1)
		if overdue := c.shard.delete(c); overdue && !answered {
			ep.remember(c)
		}
		p.prober.budget.calls.Add(1)
	}
	if a.Stream {
		ep.deleteStream(c)
	}
	a.Ended(info.BytesSent)
	if info.BytesReceived {
		a.answered()
	}
	start, now := c.start.Time(), health.Now()
	took := now.Sub(start)
	err := info.Err
	if err == nil && !info.BytesSent {
		err = errNotSent
	}
	p.options().Events.Ended(ep, a.info(c.method), took, err)
	if isCall {
		c.stat.ended.note(took, err)
	}
	if classified := answered && c.answered(start, now, info.Err); !classified && isCall && info.BytesSent {
		c.evaluate(start, now, answered, info.Err)
	}
	st := ep.State()
	if st != health.Serving && (answered || !ep.busy()) {
		p.prober.readmitUnprobed(ep, now, "nothing is in flight")
	}
	if st == health.Draining || ep.unwanted.Load() {
		ep.retire()
	}
	if learner, ok := p.strategy().(Learner); ok && (info.BytesSent || info.Err != nil) {
		learner.Done(ep, Result{
			Call: a.info(c.method), Took: took, Err: info.Err, Answered: answered,
			Failed: info.Err != nil && p.options().Fault(info.Err),
		})
	}
}

// endedHere reports whether the error may come from this client ending the call. A server
// may have begun to respond.
func endedHere(err error) bool {
	return status.Code(err) == codes.Canceled || status.Code(err) == codes.DeadlineExceeded
}

// answered records the evidence from the end of a call. It reports whether that was the error.
func (c *call) answered(start, now time.Time, err error) (classified bool) {
	ep, a := c.conn.ep, c.attempt
	p := ep.policy
	c.conn.heardAt(now)
	if err != nil {
		if classify := p.options().Classify; classify != nil {
			if kind, ok := classify(err); ok && c.isCurrent(kind, now) {
				p.note(ep, health.Evidence{Kind: kind, At: now, Err: err, Detail: c.method})
				return true
			}
		}
		ep.healthEntry().Failed(err, now)
	}
	took, isCall := now.Sub(start), a.class() == Calls
	inTime := took < c.stat.SuspectAfter()
	if isCall {
		c.stat.observe(start, took)
	}
	switch {
	case err == nil && a.Need == Full && isCall:
		p.proof.completed(c.conn, start, now)
		if inTime && ep.healthEntry().Load().State != health.Serving {
			p.served(ep, start, now)
		}
	case ep.State() == health.Unknown:
		p.note(ep, health.Evidence{Kind: health.Answered, At: now})
	}
	return false
}

// isCurrent reports whether an error is evidence about the endpoint's present state. It is
// not if the endpoint has completed work that began later, nor if it is "timed out" after
// the call's own deadline: servers enforce that deadline too.
func (c *call) isCurrent(kind health.Kind, now time.Time) bool {
	if c.conn.ep.healthEntry().CompletedSince(c.start.Time()) {
		return false
	}
	deadline := c.deadline()
	return kind != health.Suspicious || deadline.IsZero() || now.Before(deadline)
}
