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
	// suspectAfter is the silence that was unusual for its shape when it began.
	suspectAfter time.Duration

	shard *shard // nil for a stream, and for what is not of class Calls
	// Guarded by its lock:
	next, prev *call
	suspectAt  health.Moment // when its silence becomes suspicious
	overdue    bool          // Overdue was called

	made int32 // which connection of conn it is on: a server may be closing the one before
}

// begin records a picked attempt.
func (p *policy) begin(ctx context.Context, s *subConn, info *Call, a *Attempt) *call {
	ep, c := s.ep, &a.first
	if !a.flags.add(flagBegun) {
		c = new(call) // for example when gRPC moves a call to another connection: the first may still be in use
	}
	c.ctx, c.method, c.conn, c.attempt = ctx, info.Method, s, a
	c.stat, c.start, c.made = ep.latency.known(info.Shape), momentNow(), s.made.Load()
	if c.stat == nil {
		c.stat = ep.latency.get(info.Shape, &p.shapes)
	}
	if info.Conn == Calls {
		ep.running.Add(1)
		ep.add(c)
	}
	if a.Stream {
		ep.addStream(c)
	}
	return c
}

// info describes the attempt to strategies and observers.
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
		e.end = func(info balancer.DoneInfo) {
			if c := e.call; c != nil { // else gRPC called it before
				e.call = nil
				endings.Put(e)
				c.end(info)
			}
		}
	}
	e.call = c
	return e.end
}

var errNotSent = status.Error(codes.Unavailable, "the connection was lost before the request was sent")

// end handles gRPC's Done of the attempt. A DoneInfo has no error also if the connection was lost before
// the request was sent: without an error it means success only if bytes were received.
func (c *call) end(info balancer.DoneInfo) {
	ep, a, isCall := c.conn.ep, c.attempt, c.shard != nil
	p := ep.policy
	answered := info.BytesReceived && (info.Err == nil || !endedHere(info.Err))
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
	if (a.Write || a.Prompt) && status.Convert(info.Err).Message() == "stream terminated by RST_STREAM with error code: REFUSED_STREAM" {
		a.flags.add(flagRefused) // gRPC sends it again, but HAProxy also refuses what a server has executed
	}
	a.Ended(info.BytesSent)
	if info.BytesReceived {
		a.answered()
	}
	now := momentNow()
	took, err := time.Duration(now-c.start), info.Err
	if err == nil && !info.BytesReceived {
		err = errNotSent
	}
	if o := p.options(); o.observesCalls {
		o.Events.Ended(ep, a.info(c.method), took, err)
	}
	if isCall {
		c.stat.ended.note(took, err)
	}
	if classified := answered && c.answered(now.Time(), took, info.Err); !classified && isCall && info.BytesSent {
		c.count(now, answered, err)
	}
	st := ep.State()
	if st != health.Serving && (answered || ep.InFlight() == 0) {
		p.prober.readmitUnprobed(ep, now.Time(), "nothing is in flight")
	}
	if st == health.Draining || ep.unwanted.Load() {
		ep.retire()
	}
	if learner := p.chosen.Load().learner; learner != nil && (info.BytesSent || info.Err != nil) {
		learner.Done(ep, Result{
			Call: a.info(c.method), Took: took, Err: err, Answered: answered,
			Failed: err != nil && p.options().Fault(err),
		})
	}
}

// endedHere reports whether the error may come from this client ending the call. A server
// may have begun to respond.
func endedHere(err error) bool {
	code := status.Code(err)
	return code == codes.Canceled || code == codes.DeadlineExceeded
}

// answered records the evidence from the end of a call. It reports whether the error was the
// evidence.
func (c *call) answered(now time.Time, took time.Duration, err error) (classified bool) {
	ep, a, start := c.conn.ep, c.attempt, c.start.Time()
	p := ep.policy
	c.conn.heardAt(now, c.made)
	if !c.conn.useful.Load() && (err == nil || !p.options().Fault(err)) {
		c.conn.useful.Store(true)
	}
	if err != nil {
		if classify := p.options().Classify; classify != nil {
			switch kind, ok := classify(err); {
			case !ok || !c.isCurrent(kind, now):
			case kind == health.Suspicious && p.prober.leavesUnprobed(ep):
				ep.healthEntry().Failed(err, now) // a suspicion would end at once, and its end wakes all retries
				return true
			default:
				p.note(ep, health.Evidence{Kind: kind, At: now, Err: err, Detail: c.method})
				return true
			}
		}
		ep.healthEntry().Failed(err, now)
	}
	isCall, inTime := c.shard != nil, took < c.stat.SuspectAfter()
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
