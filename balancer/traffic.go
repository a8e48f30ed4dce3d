package balancer

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/health"
)

const (
	// quietProbe is after how long without a word from an endpoint with open streams it
	// is probed, on average. Each client with a quiet watch costs its member a tenth of a
	// Status a second at most, and notices a frozen one after ten seconds or so; a
	// broken network is the kernel's to notice, in less.
	quietProbe = 10 * time.Second

	// Looks are not closer together than minLook. While streams are lively they are not
	// further apart than maxLook, which is more than any lively stream may be silent.
	// A look that comes later than starved makes nobody a suspect: this process was
	// short of CPU, and what it waits for may be here and unread.
	minLook = 5 * time.Millisecond
	maxLook = 2 * time.Second
	starved = 50 * time.Millisecond

	// recently is for how long after the last call an endpoint counts as wanted.
	recently = 3 * time.Second
)

// traffic is what is under way to an endpoint: calls, and streams. One timer looks for
// silence while there is any.
type traffic struct {
	mu sync.Mutex
	// The calls, the oldest first.
	first, last *flight
	departed    time.Time // when the latest call began
	// Calls that nobody waited for any longer, by their class: when the first of them
	// began. A call that was hedged ends when the hedge is answered; that it was not
	// answered itself must not be forgotten with it.
	unanswered map[*gauge]time.Time
	flows      map[*Flow]struct{}
	timer      *time.Timer
	// quiet is for how long nothing must be heard before it is looked after a stream, and
	// looked when that was done last.
	quiet  time.Duration
	looked time.Time
	// due is when the timer will fire, zero while it is not set. It is changed with the
	// lock held.
	due atomic.Pointer[time.Time]
}

// depart adds a call.
func (e *Endpoint) depart(f *flight) {
	e.traffic.mu.Lock()
	defer e.traffic.mu.Unlock()
	f.doubt = f.start.Add(f.gauge.latency.SuspectAfter())
	if e.traffic.last == nil {
		e.traffic.first = f
	} else {
		e.traffic.last.next, f.prev = f, e.traffic.last
	}
	e.traffic.last = f
	e.traffic.departed = f.start
	e.lookBy(f.start.Add(f.gauge.latency.HedgeAfter()), f.start)
}

// land removes a call.
func (e *Endpoint) land(f *flight, answered bool) {
	e.traffic.mu.Lock()
	defer e.traffic.mu.Unlock()
	if f.told && !answered {
		e.miss(f)
	}
	if f.prev == nil {
		e.traffic.first = f.next
	} else {
		f.prev.next = f.next
	}
	if f.next == nil {
		e.traffic.last = f.prev
	} else {
		f.next.prev = f.prev
	}
	f.next, f.prev = nil, nil
}

// miss remembers an overdue call that ends without an answer. It needs the lock.
func (e *Endpoint) miss(f *flight) {
	if _, ok := e.traffic.unanswered[f.gauge]; ok || !f.gauge.silentSince(f.start) {
		return
	}
	if e.traffic.unanswered == nil {
		e.traffic.unanswered = make(map[*gauge]time.Time)
	}
	e.traffic.unanswered[f.gauge] = f.start
	e.lookBy(f.doubt, time.Now())
}

// lookBy sets the timer if it is not set to an earlier time. It needs the lock.
func (e *Endpoint) lookBy(at, now time.Time) {
	if due := e.traffic.due.Load(); due == nil || at.Before(*due) {
		e.look(at, now)
	}
}

// look sets the timer. It needs the lock.
func (e *Endpoint) look(at, now time.Time) {
	wait := max(at.Sub(now), minLook)
	due := now.Add(wait)
	e.traffic.due.Store(&due)
	if e.traffic.timer == nil {
		e.traffic.timer = time.AfterFunc(wait, e.inspect)
		return
	}
	e.traffic.timer.Reset(wait)
}

// inspect looks for calls that are overdue, and for silence.
func (e *Endpoint) inspect() {
	now, other := time.Now(), e.policy.hasOther(e)
	e.traffic.mu.Lock()
	due := e.traffic.due.Load()
	if due == nil {
		e.traffic.mu.Unlock()
		return // stopped
	}
	if now.Sub(*due) > starved {
		e.look(now.Add(minLook), now)
		e.traffic.mu.Unlock()
		return
	}
	overdue, next, suspicion := e.lookAtCalls(now, other)
	at, detail, quiet := e.lookAtFlows(now)
	if !at.IsZero() {
		next = earliest(next, at)
	}
	if suspicion == "" {
		suspicion = detail
	}
	e.traffic.due.Store(nil)
	if !next.IsZero() {
		e.look(next, now)
	}
	e.traffic.mu.Unlock()

	p := e.policy
	if suspicion != "" {
		p.suspect(e, now, suspicion)
	} else if quiet {
		p.probe(e, look)
	}
	for _, f := range overdue {
		f.a.Observer.Overdue()
	}
}

// lookAtCalls returns the calls whose Observers are to be told, when to look again, and
// what is suspicious. Overdue are only calls that another endpoint could serve. It needs
// the lock.
func (e *Endpoint) lookAtCalls(now time.Time, other bool) (overdue []*flight, next time.Time, suspicion string) {
	for f := e.traffic.first; f != nil; f = f.next {
		if !f.told && f.a.Observer != nil {
			at := f.start.Add(f.gauge.latency.HedgeAfter())
			switch {
			case now.Before(at):
				next = earliest(next, at)
			case other:
				f.told = true
				overdue = append(overdue, f)
			default:
				next = earliest(next, now.Add(starved))
			}
		}
		if !now.Before(f.doubt) {
			age := now.Sub(f.start)
			f.doubt = now.Add(age) // the next time, it must be twice as old
			if suspicion == "" && f.gauge.silentSince(f.start) {
				suspicion = fmt.Sprintf("no answer to %s for %v", f.call.Method, age.Round(time.Millisecond))
			}
		}
		next = earliest(next, f.doubt)
	}
	for g, start := range e.traffic.unanswered {
		at := start.Add(g.latency.SuspectAfter())
		switch {
		case !g.silentSince(start):
			delete(e.traffic.unanswered, g)
		case now.Before(at):
			next = earliest(next, at)
		default:
			delete(e.traffic.unanswered, g)
			suspicion = fmt.Sprintf("no answer to a call for %v, which others answered", now.Sub(start).Round(time.Millisecond))
		}
	}
	return overdue, next, suspicion
}

// lookAtFlows returns when to look at the streams again, what is suspicious, and whether
// the endpoint has been quiet for so long that it is to be probed. It needs the lock.
func (e *Endpoint) lookAtFlows(now time.Time) (next time.Time, suspicion string, quiet bool) {
	for f := range e.traffic.flows {
		if at := f.rhythm.SuspectAt(); !at.IsZero() && !now.Before(at) {
			f.rhythm.Cleared(now)
			suspicion = "a stream is silent for longer than it usually is"
		}
		if at := f.rhythm.SuspectAt(); !at.IsZero() {
			next = earliest(next, at)
		}
		at := f.heardAt()
		if e.traffic.looked.After(at) {
			at = e.traffic.looked
		}
		if at = at.Add(e.traffic.quiet); !now.Before(at) {
			quiet = true
			at = now.Add(e.traffic.quiet)
		}
		next = earliest(next, at)
	}
	if quiet {
		e.traffic.looked, e.traffic.quiet = now, jittered(quietProbe)
	}
	return next, suspicion, quiet
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// jittered returns a duration that is up to a quarter off d.
func jittered(d time.Duration) time.Duration {
	return d - d/4 + rand.N(d/2)
}

// Flow is a stream on an endpoint, whose silence is noticed.
type Flow struct {
	ep     *Endpoint
	line   *line
	cut    func(reason error)
	opened time.Time
	rhythm health.Rhythm
}

// OpenFlow notes that a stream was opened on the endpoint, in a lane. cut, if it is not
// nil, is called when the endpoint turned out to be unable to go on with it, right before
// the connection is closed under it; it must not block.
func (e *Endpoint) OpenFlow(lane Lane, cut func(reason error)) *Flow {
	f := &Flow{ep: e, cut: cut, opened: time.Now()}
	if e.policy == nil {
		return f
	}
	f.line = e.lines[lane]
	now := f.opened
	e.traffic.mu.Lock()
	defer e.traffic.mu.Unlock()
	if e.traffic.flows == nil {
		e.traffic.flows = make(map[*Flow]struct{})
	}
	if e.traffic.quiet == 0 {
		e.traffic.quiet = jittered(quietProbe)
	}
	e.traffic.flows[f] = struct{}{}
	e.lookBy(now.Add(e.traffic.quiet), now)
	return f
}

// Heard notes that a message arrived on the stream.
func (f *Flow) Heard() {
	now := time.Now()
	f.rhythm.Heard(now)
	if f.line == nil {
		return
	}
	f.line.hear(now)
	// A timer that is set to a moment this near looks at all streams, and goes on from
	// there.
	if due := f.ep.traffic.due.Load(); due == nil || due.Sub(now) > maxLook {
		f.ep.lookAt(f, now)
	}
}

// lookAt sets the timer for a stream that has become lively.
func (e *Endpoint) lookAt(f *Flow, now time.Time) {
	at := f.rhythm.SuspectAt()
	if at.IsZero() {
		return // it is quiet
	}
	e.traffic.mu.Lock()
	defer e.traffic.mu.Unlock()
	if _, open := e.traffic.flows[f]; open {
		e.lookBy(at, now)
	}
}

// idleAfter is how old a stream must be to count as idle if it is quiet.
const idleAfter = quietProbe

// Idle reports whether the stream is quiet, and not only because it is young: nobody
// will miss it for a few seconds.
func (f *Flow) Idle() bool {
	return time.Since(f.opened) >= idleAfter && f.rhythm.SuspectAt().IsZero()
}

// Close notes that the stream has ended.
func (f *Flow) Close() {
	f.ep.traffic.mu.Lock()
	delete(f.ep.traffic.flows, f)
	f.ep.traffic.mu.Unlock()
	f.ep.retire()
}

// cutAll tells the owners of streams why these end.
func cutAll(flows []*Flow, reason error) {
	for _, f := range flows {
		if f.cut != nil {
			f.cut(reason)
		}
	}
}

func (f *Flow) heardAt() time.Time { return time.Unix(0, f.line.heard.Load()) }

// wanted reports whether somebody called the endpoint recently, or waits for it.
func (e *Endpoint) wanted(now time.Time) bool {
	e.traffic.mu.Lock()
	defer e.traffic.mu.Unlock()
	return e.traffic.first != nil || now.Sub(e.traffic.departed) < recently
}

// busy reports whether anything is under way.
func (e *Endpoint) busy() bool {
	e.traffic.mu.Lock()
	defer e.traffic.mu.Unlock()
	return e.traffic.first != nil || len(e.traffic.flows) > 0
}

// retire closes the connections of an endpoint that is unwanted once nothing is under way.
func (e *Endpoint) retire() {
	if e.unwanted.Load() && !e.busy() {
		e.policy.publish()
	}
}

// on returns what is under way on a line.
func (e *Endpoint) on(l *line) (flights []*flight, flows []*Flow) {
	e.traffic.mu.Lock()
	defer e.traffic.mu.Unlock()
	for f := e.traffic.first; f != nil; f = f.next {
		if f.line == l {
			flights = append(flights, f)
		}
	}
	for f := range e.traffic.flows {
		if f.line == l {
			flows = append(flows, f)
		}
	}
	return flights, flows
}

// rest stops the timer for good.
func (e *Endpoint) rest() {
	e.traffic.mu.Lock()
	defer e.traffic.mu.Unlock()
	e.traffic.due.Store(nil)
	if e.traffic.timer != nil {
		e.traffic.timer.Stop()
	}
}
