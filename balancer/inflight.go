package balancer

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/health"
)

const (
	// minCheck and maxCheck bound the time between two checks for silence; maxCheck applies
	// while streams are active.
	minCheck = 5 * time.Millisecond
	maxCheck = 2 * time.Second
	// starved is how late a timer may fire. Later checks are repeated: the process was short
	// of CPU or paused, and responses may have arrived unread. An overdue call without an
	// alternative is checked as often.
	starved = 50 * time.Millisecond
)

// runAt runs f once it is due. If the timer fires too late, f runs a little later still: answers may have arrived
// and not been read yet.
func runAt(due time.Time, f func()) {
	time.AfterFunc(time.Until(due), func() {
		if time.Since(due) > starved {
			runAt(time.Now().Add(starved), f)
			return
		}
		f()
	})
}

// inflight tracks the in-flight calls and streams of an endpoint. One timer checks them
// for silence.
type inflight struct {
	calls [shards]shard

	mu sync.Mutex // guards what follows
	// unanswered maps a shape to the start of the first call that ended without a response.
	// A hedged call ends when the hedge is answered; its own missing response still counts
	// as silence.
	unanswered map[*stat]health.Moment
	streams    map[*stream]struct{}
	timer      *time.Timer
	// due is the health.Moment at which the timer fires, 0 while it is not set. Writers hold the
	// lock. A check first sets it to 0, so that a call that is added during the check sets the
	// timer itself.
	due atomic.Int64
}

// momentNow returns the present moment. It is negative in the bubbles of synctest.
func momentNow() health.Moment { return health.Moment(time.Since(firstMoment)) }

var firstMoment = health.Moment(0).Time()

// add appends a call that begins now.
func (e *Endpoint) add(c *call) {
	c.suspectAfter = c.stat.SuspectAfter()
	c.suspectAt = c.start + health.Moment(c.suspectAfter)
	c.shard = &e.inflight.calls[shardAt(c.start)]
	c.shard.add(c)
	if at := c.start + health.Moment(c.stat.HedgeAfter()); !e.isDueBy(at) {
		e.inflight.mu.Lock()
		defer e.inflight.mu.Unlock()
		e.checkByLocked(at, c.start)
	}
}

// remember records an overdue call that ended without a response. What ends while the endpoint is removed, or as the client
// closes, is no evidence.
func (e *Endpoint) remember(c *call) {
	f := &e.inflight
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.unanswered[c.stat]; ok || e.removed() || c.stat.answered.After(c.start.Time()) {
		return
	}
	if f.unanswered == nil {
		f.unanswered = make(map[*stat]health.Moment)
	}
	f.unanswered[c.stat] = c.start
	e.checkByLocked(c.suspectAt, momentNow())
}

// isDueBy reports whether the timer fires at a moment or earlier.
func (e *Endpoint) isDueBy(at health.Moment) bool {
	due := health.Moment(e.inflight.due.Load())
	return due != 0 && due <= at
}

// checkByLocked sets the timer if it is not set to an earlier moment.
func (e *Endpoint) checkByLocked(at, now health.Moment) {
	if !e.isDueBy(at) {
		e.checkAtLocked(at, now)
	}
}

// checkAtLocked sets the timer.
func (e *Endpoint) checkAtLocked(at, now health.Moment) {
	f := &e.inflight
	wait := max(time.Duration(at-now), minCheck)
	f.due.Store(int64(now) + int64(wait))
	if f.timer == nil {
		f.timer = time.AfterFunc(wait, e.check)
		return
	}
	f.timer.Reset(wait)
}

// check finds overdue calls and silent streams.
func (e *Endpoint) check() {
	at := time.Now() // evidence has the time of the wall clock
	now := health.MomentOf(at)
	f := &e.inflight
	f.mu.Lock()
	due := health.Moment(f.due.Load())
	if due == 0 {
		f.mu.Unlock()
		return // stopped
	}
	if time.Duration(now-due) > starved {
		e.checkAtLocked(now, now)
		f.mu.Unlock()
		return
	}
	f.due.Store(0)
	found := findings{unprovenUntil: health.MomentOf(e.policy.reconnects.unprovenUntil.Time())}
	for i := range f.calls {
		e.checkCalls(&f.calls[i], now, &found)
	}
	e.checkUnansweredLocked(now, &found)
	e.checkStreamsLocked(now, &found)
	if found.next != 0 {
		e.checkByLocked(found.next, now)
	}
	f.mu.Unlock()

	if found.suspicion != "" {
		e.policy.prober.suspect(e, at, found.suspicion)
	}
	if found.suspicion == "" || !e.policy.prober.canProbe() {
		for _, s := range found.silent {
			e.policy.checks.checkConn(s)
		}
	}
	for _, s := range found.quiet {
		e.policy.prober.checkStream(s, at)
	}
	for _, c := range found.overdue {
		c.attempt.overdue()
	}
}

// findings are what a check finds.
type findings struct {
	unprovenUntil health.Moment // until when no call is overdue, because an outage of all endpoints has just ended
	next          health.Moment // when to check again, 0 for not at all
	overdue       []*call       // calls whose Watchers are to be notified
	suspicion     string        // the suspicion of the endpoint, "" for none
	silent        []*subConn    // silent connections, which are checked unless the endpoint itself is probed
	quiet         []*stream     // streams that are silent for long enough to be checked
}

func (f *findings) checkBy(at health.Moment) {
	if f.next == 0 || at < f.next {
		f.next = at
	}
}

// checkCalls checks the calls of a shard. A call is overdue only if another endpoint could
// serve it.
func (e *Endpoint) checkCalls(s *shard, now health.Moment, found *findings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := s.first; c != nil; c = c.next {
		if !c.overdue && c.attempt.Watcher != nil {
			at := max(c.start+health.Moment(c.stat.HedgeAfter()), found.unprovenUntil)
			switch {
			case now < at:
				found.checkBy(at)
			case e.hasAlternative(c.attempt.Need):
				c.overdue = true
				found.overdue = append(found.overdue, c)
			default:
				found.checkBy(now + health.Moment(starved))
			}
		}
		if now >= c.suspectAt {
			c.suspectAt = now + now - c.start // the next time, it must be twice as old
			if c.conn.completedNothing(c.stat, c.start) {
				found.silence(c.conn, c.start, now, "no answer to "+c.method)
			}
		}
		found.checkBy(c.suspectAt)
	}
}

func (e *Endpoint) checkUnansweredLocked(now health.Moment, found *findings) {
	for stat, start := range e.inflight.unanswered {
		at := start + health.Moment(stat.SuspectAfter())
		switch {
		case !e.conn(Calls).completedNothing(stat, start):
			delete(e.inflight.unanswered, stat)
		case now < at:
			found.checkBy(at)
		default:
			delete(e.inflight.unanswered, stat)
			found.silence(e.conn(Calls), start, now, "no answer to a call that has ended")
		}
	}
}

// completedNothing reports whether nothing that began since start has succeeded: the endpoint answered no call of the
// shape, and completed no work over the connection.
func (s *subConn) completedNothing(of *stat, start health.Moment) bool {
	return !of.answered.After(start.Time()) && !s.completedSince(start.Time())
}

// silence records that nothing that began since start was completed over the connection.
func (f *findings) silence(s *subConn, start, now health.Moment, what string) {
	age := time.Duration(now - start)
	if !s.ep.healthEntry().CompletedSince(start.Time()) {
		f.suspicion = cmp.Or(f.suspicion, fmt.Sprintf("%s for %v", what, age.Round(time.Millisecond)))
	}
	if !s.heard.After(now.Time().Add(-age/2)) && !slices.Contains(f.silent, s) {
		f.silent = append(f.silent, s)
	}
}

func (e *Endpoint) checkStreamsLocked(now health.Moment, found *findings) {
	for s := range e.inflight.streams {
		if now >= s.dueAt() {
			s.checked(now.Time())
			found.quiet = append(found.quiet, s)
		}
		found.checkBy(s.dueAt())
	}
}

// hasInFlight reports whether a call or a stream is in flight.
func (e *Endpoint) hasInFlight() bool {
	if e.running.Load() > 0 {
		return true
	}
	e.inflight.mu.Lock()
	defer e.inflight.mu.Unlock()
	return len(e.inflight.streams) > 0
}

// retire closes the connections of an endpoint that is unwanted or removed, once nothing is in flight.
func (e *Endpoint) retire() {
	switch removed := e.removed(); {
	case !removed && !e.unwanted.Load() || e.hasInFlight():
	case removed:
		e.policy.drains.retire(e)
	default:
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

// streamsOn returns the streams on a connection; on any for nil.
func (f *inflight) streamsOn(s *subConn) []*stream {
	f.mu.Lock()
	defer f.mu.Unlock()
	var streams []*stream
	for st := range f.streams {
		if s == nil || st.conn == s {
			streams = append(streams, st)
		}
	}
	return streams
}

// stop stops the timer.
func (f *inflight) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.due.Store(0)
	if f.timer != nil {
		f.timer.Stop()
	}
}

// shards is the number of locks over which the in-flight calls of an endpoint are spread by a
// hash of their start.
const shards = 8

// shardAt returns the number of the lock for a call that begins at m. It is Fibonacci hashing, because
// the last bits of all moments of a coarse clock may be the same.
func shardAt(m health.Moment) uint64 { return uint64(m) * 0x9E3779B97F4A7C15 >> 32 % shards }

// shard holds some of the calls in flight, the oldest first.
type shard struct {
	mu          sync.Mutex
	first, last *call
	_           [40]byte // to the end of a cache line
}

// add appends a call.
func (s *shard) add(c *call) {
	s.mu.Lock()
	if s.last == nil {
		s.first = c
	} else {
		s.last.next, c.prev = c, s.last
	}
	s.last = c
	s.mu.Unlock()
}

// delete removes a call, and reports whether it was overdue.
func (s *shard) delete(c *call) (overdue bool) {
	s.mu.Lock()
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
	c.next, c.prev, overdue = nil, nil, c.overdue
	s.mu.Unlock()
	return overdue
}

// appendOn appends the calls on a connection, all calls for nil.
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
