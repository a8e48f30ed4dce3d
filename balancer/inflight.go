package balancer

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

const (
	// minCheck and maxCheck bound the time between two checks for silence; maxCheck applies
	// while streams are active.
	minCheck = 5 * time.Millisecond
	maxCheck = 2 * time.Second
	// starved is how late a timer may fire. Later checks are ignored: the process was short
	// of CPU or paused, and responses may have arrived unread.
	starved = 50 * time.Millisecond
)

// inflight tracks the in-flight calls and streams of an endpoint. One timer checks them
// for silence.
type inflight struct {
	calls [shards]shard

	mu sync.Mutex // guards what follows
	// unanswered maps a shape to the start of the first call that ended without a response.
	// A hedged call ends when the hedge is answered; its own missing response still counts
	// as silence.
	unanswered map[*stat]time.Time
	streams    map[*Stream]struct{}
	timer      *time.Timer
	// due is when the timer fires, nil while it is not set. Writers hold the lock. A check
	// first sets it to nil, so that a call that is added during the check sets the timer
	// itself.
	due atomic.Pointer[time.Time]
}

// shards is the number of locks over which the in-flight calls of an endpoint are spread
// at random.
const shards = 8

// shard holds some of the calls in flight, the oldest first.
type shard struct {
	mu          sync.Mutex
	first, last *call
	_           [40]byte // to the end of a cache line
}

// call is an attempt of a call, from its pick to its end.
type call struct {
	ctx     context.Context // gRPC's
	method  string          // full name
	conn    *subConn
	attempt *Attempt
	stat    *stat
	start   health.Moment

	shard *shard // nil for a stream
	// Guarded by its lock:
	next, prev *call
	suspectAt  health.Moment // when its silence becomes suspicious
	overdue    bool          // Overdue was called
}

// begin records a picked attempt.
func (p *policy) begin(ctx context.Context, s *subConn, info Call, a *Attempt) *call {
	ep, c, now := s.ep, a.record(), health.Now()
	c.ctx, c.method, c.conn, c.attempt = ctx, info.Method, s, a
	c.stat, c.start = ep.latency.get(info.Shape, &p.shapes), health.MomentOf(now)
	if info.Conn == Calls {
		ep.running.Add(1)
		ep.add(c, now)
	}
	return c
}

// info returns the call as strategies and observers see it.
func (c *call) info() Call {
	a := c.attempt
	return Call{Method: c.method, Need: a.Need, Conn: a.Conn, Shape: cmp.Or(a.Shape, c.method)}
}

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

// end handles gRPC's Done of the attempt. A zero DoneInfo means that the connection was
// lost before anything was sent.
func (c *call) end(info balancer.DoneInfo) {
	ep, a := c.conn.ep, c.attempt
	p := ep.policy
	answered := info.BytesSent && (info.Err == nil || (info.BytesReceived && !endedHere(info.Err)))
	if a.Conn == Calls {
		ep.running.Add(-1)
		ep.delete(c, answered)
		p.budget.earn()
	}
	a.Ended(info.BytesSent)
	if info.BytesReceived {
		a.flags.add(flagAnswered)
	}
	start, now := c.start.Time(), health.Now()
	took := now.Sub(start)
	p.options().Events.Ended(ep, c.info(), took, info.Err)
	if a.Conn == Calls {
		c.stat.ended.note(took, info.Err)
	}
	if answered {
		c.answered(start, now, info.Err)
	}
	if needsProbes(ep.State()) && !p.canProbe() && (answered || !ep.busy()) {
		// There are no probes: the suspicion ends with the work in flight.
		p.note(ep, health.Evidence{Kind: health.Served, At: now, Detail: "nothing is in flight"})
	}
	ep.retire()
	if p.learner != nil && (info.BytesSent || info.Err != nil) {
		p.learner.Done(ep, Result{
			Call: c.info(), Took: took, Err: info.Err, Answered: answered,
			Failed: info.Err != nil && p.options().Fault(info.Err),
		})
	}
}

// endedHere reports whether the error may come from this client ending the call. A server
// may have begun to respond.
func endedHere(err error) bool {
	code := status.Code(err)
	return code == codes.Canceled || code == codes.DeadlineExceeded
}

// answered records the evidence from the end of a call.
func (c *call) answered(start, now time.Time, err error) {
	ep, a := c.conn.ep, c.attempt
	p := ep.policy
	c.conn.heardAt(now)
	if err != nil {
		if kind, ok := p.options().Classify(err); ok && c.isCurrent(kind, now) {
			p.note(ep, health.Evidence{Kind: kind, At: now, Err: err, Detail: c.method})
			return
		}
		ep.known().Failed(err, now)
	}
	took := now.Sub(start)
	inTime := took < c.stat.SuspectAfter()
	if a.Conn == Calls {
		c.stat.observe(start, took)
	}
	switch {
	case err == nil && a.Need == Full && a.Conn == Calls:
		p.completed(ep, start, now)
		if inTime {
			p.served(ep, start, now)
		}
	case ep.State() == health.Unknown:
		p.note(ep, health.Evidence{Kind: health.Answered, At: now})
	}
}

// isCurrent reports whether an error is evidence about the endpoint's present state. It is
// not if the endpoint has completed work that began later, nor if it is "timed out" after
// the call's own deadline: servers enforce that deadline too.
func (c *call) isCurrent(kind health.Kind, now time.Time) bool {
	if c.conn.ep.known().CompletedSince(c.start.Time()) {
		return false
	}
	deadline := c.deadline()
	return kind != health.Suspicious || deadline.IsZero() || now.Before(deadline)
}

// add appends a call that begins now.
func (e *Endpoint) add(c *call, now time.Time) {
	c.suspectAt = health.MomentOf(now.Add(c.stat.SuspectAfter()))
	c.shard = &e.inflight.calls[rand.N(shards)]
	c.shard.add(c)
	at := now.Add(c.stat.HedgeAfter())
	if !e.isDueBy(at) {
		e.inflight.mu.Lock()
		defer e.inflight.mu.Unlock()
		e.checkBy(at, now)
	}
}

func (s *shard) add(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.first = c
	} else {
		s.last.next, c.prev = c, s.last
	}
	s.last = c
}

// delete removes a call.
func (e *Endpoint) delete(c *call, answered bool) {
	if overdue := c.shard.delete(c); overdue && !answered {
		e.remember(c)
	}
}

func (s *shard) delete(c *call) (overdue bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.prev == nil {
		s.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		s.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.next, c.prev = nil, nil
	return c.overdue
}

// remember records an overdue call that ended without a response.
func (e *Endpoint) remember(c *call) {
	f, start := &e.inflight, c.start.Time()
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.unanswered[c.stat]; ok || c.stat.answered.After(start) {
		return
	}
	if f.unanswered == nil {
		f.unanswered = make(map[*stat]time.Time)
	}
	f.unanswered[c.stat] = start
	e.checkBy(c.suspectAt.Time(), time.Now())
}

// isDueBy reports whether the timer fires at that time or earlier.
func (e *Endpoint) isDueBy(at time.Time) bool {
	due := e.inflight.due.Load()
	return due != nil && !at.Before(*due)
}

// checkBy sets the timer if it is not set to an earlier time. It needs the lock.
func (e *Endpoint) checkBy(at, now time.Time) {
	if !e.isDueBy(at) {
		e.checkAt(at, now)
	}
}

// checkAt sets the timer. It needs the lock.
func (e *Endpoint) checkAt(at, now time.Time) {
	f := &e.inflight
	wait := max(at.Sub(now), minCheck)
	due := now.Add(wait)
	f.due.Store(&due)
	if f.timer == nil {
		f.timer = time.AfterFunc(wait, e.check)
		return
	}
	f.timer.Reset(wait)
}

// check finds overdue calls and silent streams.
func (e *Endpoint) check() {
	now, alternative := time.Now(), e.hasAlternative()
	f := &e.inflight
	f.mu.Lock()
	due := f.due.Load()
	if due == nil {
		f.mu.Unlock()
		return // stopped
	}
	if now.Sub(*due) > starved {
		e.checkAt(now.Add(minCheck), now)
		f.mu.Unlock()
		return
	}
	f.due.Store(nil)
	var found findings
	for i := range f.calls {
		e.checkCalls(&f.calls[i], now, alternative, &found)
	}
	e.checkUnanswered(now, &found)
	e.checkStreams(now, &found)
	if !found.next.IsZero() {
		e.checkBy(found.next, now)
	}
	f.mu.Unlock()

	if found.suspicion != "" {
		e.policy.suspect(e, now, found.suspicion)
	}
	for _, s := range found.quiet {
		e.policy.checkStream(s, now)
	}
	for _, c := range found.overdue {
		c.attempt.Watcher.Overdue()
	}
}

// findings are what a check finds.
type findings struct {
	next      time.Time // when to check again
	overdue   []*call   // calls whose Watchers are to be notified
	suspicion string    // "" for none
	quiet     []*Stream // streams that are silent for long enough to be checked
}

func (f *findings) checkBy(at time.Time) {
	if f.next.IsZero() || at.Before(f.next) {
		f.next = at
	}
}

// checkCalls checks the calls of a shard. A call is overdue only if another endpoint could
// serve it.
func (e *Endpoint) checkCalls(s *shard, now time.Time, alternative bool, found *findings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := s.first; c != nil; c = c.next {
		start := c.start.Time()
		if !c.overdue && c.attempt.Watcher != nil {
			at := start.Add(c.stat.HedgeAfter())
			switch {
			case now.Before(at):
				found.checkBy(at)
			case alternative:
				c.overdue = true
				found.overdue = append(found.overdue, c)
			default:
				found.checkBy(now.Add(starved))
			}
		}
		if !now.Before(c.suspectAt.Time()) {
			age := now.Sub(start)
			c.suspectAt = health.MomentOf(now.Add(age)) // the next time, it must be twice as old
			if found.suspicion == "" && e.isSilent(c.stat, start) {
				found.suspicion = fmt.Sprintf("no answer to %s for %v", c.method, age.Round(time.Millisecond))
			}
		}
		found.checkBy(c.suspectAt.Time())
	}
}

// checkUnanswered needs the lock.
func (e *Endpoint) checkUnanswered(now time.Time, found *findings) {
	for stat, start := range e.inflight.unanswered {
		at := start.Add(stat.SuspectAfter())
		switch {
		case !e.isSilent(stat, start):
			delete(e.inflight.unanswered, stat)
		case now.Before(at):
			found.checkBy(at)
		default:
			delete(e.inflight.unanswered, stat)
			found.suspicion = fmt.Sprintf("no answer to a call that has ended for %v", now.Sub(start).Round(time.Millisecond))
		}
	}
}

// isSilent reports whether the endpoint has answered no call of the shape, and completed
// no work, that began since start.
func (e *Endpoint) isSilent(s *stat, start time.Time) bool {
	return !s.answered.After(start) && !e.known().CompletedSince(start)
}

// checkStreams needs the lock.
func (e *Endpoint) checkStreams(now time.Time, found *findings) {
	for s := range e.inflight.streams {
		due := s.dueAt()
		if now.Before(due) {
			found.checkBy(due)
			continue
		}
		s.pace.Checked(now)
		found.quiet = append(found.quiet, s)
		found.checkBy(s.dueAt())
	}
}

// busy reports whether anything is in flight.
func (e *Endpoint) busy() bool {
	if e.running.Load() > 0 {
		return true
	}
	e.inflight.mu.Lock()
	defer e.inflight.mu.Unlock()
	return len(e.inflight.streams) > 0
}

// retire closes the connections of an endpoint that is unwanted once nothing is in flight.
func (e *Endpoint) retire() {
	if e.unwanted.Load() && !e.busy() {
		e.policy.publish()
	}
}

// callsOn returns the calls in flight on a connection; on any for nil.
func (f *inflight) callsOn(s *subConn) []*call {
	var calls []*call
	for i := range f.calls {
		calls = f.calls[i].appendOn(s, calls)
	}
	return calls
}

func (s *shard) appendOn(conn *subConn, calls []*call) []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := s.first; c != nil; c = c.next {
		if conn == nil || c.conn == conn {
			calls = append(calls, c)
		}
	}
	return calls
}

// streamsOn returns the streams on a connection; on any for nil.
func (f *inflight) streamsOn(s *subConn) []*Stream {
	f.mu.Lock()
	defer f.mu.Unlock()
	var streams []*Stream
	for st := range f.streams {
		if s == nil || st.conn == s {
			streams = append(streams, st)
		}
	}
	return streams
}

// stop stops the timer for good.
func (f *inflight) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.due.Store(nil)
	if f.timer != nil {
		f.timer.Stop()
	}
}
