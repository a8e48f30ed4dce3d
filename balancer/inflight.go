package balancer

import (
	"cmp"
	"fmt"
	"math/rand/v2"
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
	streams    map[*stream]struct{}
	timer      *time.Timer
	// due is when the timer fires, nil while it is not set. Writers hold the lock. A check
	// first sets it to nil, so that a call that is added during the check sets the timer
	// itself.
	due atomic.Pointer[time.Time]
}

// add appends a call that begins now.
func (e *Endpoint) add(c *call, now time.Time) {
	c.patience = c.stat.SuspectAfter()
	c.suspectAt = c.start + health.Moment(c.patience)
	c.shard = &e.inflight.calls[rand.N(shards)]
	c.shard.add(c)
	at := now.Add(c.stat.HedgeAfter())
	if due := e.inflight.due.Load(); due == nil || at.Before(*due) {
		e.inflight.mu.Lock()
		defer e.inflight.mu.Unlock()
		e.checkByLocked(at, now)
	}
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
	e.checkByLocked(c.suspectAt.Time(), time.Now())
}

// isDueBy reports whether the timer fires at that time or earlier.
func (e *Endpoint) isDueBy(at time.Time) bool {
	due := e.inflight.due.Load()
	return due != nil && !at.Before(*due)
}

// checkByLocked sets the timer if it is not set to an earlier time.
func (e *Endpoint) checkByLocked(at, now time.Time) {
	if !e.isDueBy(at) {
		e.checkAtLocked(at, now)
	}
}

// checkAtLocked sets the timer.
func (e *Endpoint) checkAtLocked(at, now time.Time) {
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
	now := time.Now()
	f := &e.inflight
	f.mu.Lock()
	due := f.due.Load()
	if due == nil {
		f.mu.Unlock()
		return // stopped
	}
	if now.Sub(*due) > starved {
		e.checkAtLocked(now.Add(minCheck), now)
		f.mu.Unlock()
		return
	}
	f.due.Store(nil)
	found := findings{unprovenUntil: e.policy.reconnects.unprovenUntil.Time()}
	for i := range f.calls {
		e.checkCalls(&f.calls[i], now, &found)
	}
	e.checkUnansweredLocked(now, &found)
	e.checkStreamsLocked(now, &found)
	if !found.next.IsZero() {
		e.checkByLocked(found.next, now)
	}
	f.mu.Unlock()

	if found.suspicion != "" {
		e.policy.prober.suspect(e, now, found.suspicion)
		found.silent = nil
	}
	for _, s := range found.silent {
		e.policy.checks.checkConn(s)
	}
	for _, s := range found.quiet {
		e.policy.prober.checkStream(s, now)
	}
	for _, c := range found.overdue {
		c.attempt.overdue()
	}
}

// findings are what a check finds.
type findings struct {
	unprovenUntil time.Time  // until when no call is overdue, as an outage of all has ended
	next          time.Time  // when to check again
	overdue       []*call    // calls whose Watchers are to be notified
	suspicion     string     // of the endpoint, "" for none
	silent        []*subConn // connections that are silent, while the endpoint serves over others
	quiet         []*stream  // streams that are silent for long enough to be checked
}

func (f *findings) checkBy(at time.Time) {
	if f.next.IsZero() || at.Before(f.next) {
		f.next = at
	}
}

// checkCalls checks the calls of a shard. A call is overdue only if another endpoint could
// serve it.
func (e *Endpoint) checkCalls(s *shard, now time.Time, found *findings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := s.first; c != nil; c = c.next {
		start := c.start.Time()
		if !c.overdue && c.attempt.Watcher != nil {
			at := start.Add(c.stat.HedgeAfter())
			if at.Before(found.unprovenUntil) {
				at = found.unprovenUntil
			}
			switch {
			case now.Before(at):
				found.checkBy(at)
			case e.hasAlternative(c.attempt.Need):
				c.overdue = true
				found.overdue = append(found.overdue, c)
			default:
				found.checkBy(now.Add(starved))
			}
		}
		if !now.Before(c.suspectAt.Time()) {
			age := now.Sub(start)
			c.suspectAt = health.MomentOf(now.Add(age)) // the next time, it must be twice as old
			if c.conn.isSilent(c.stat, start) {
				found.silence(c.conn, start, now, "no answer to "+c.method)
			}
		}
		found.checkBy(c.suspectAt.Time())
	}
}

func (e *Endpoint) checkUnansweredLocked(now time.Time, found *findings) {
	for stat, start := range e.inflight.unanswered {
		at := start.Add(stat.SuspectAfter())
		switch {
		case !e.conn(Calls).isSilent(stat, start):
			delete(e.inflight.unanswered, stat)
		case now.Before(at):
			found.checkBy(at)
		default:
			delete(e.inflight.unanswered, stat)
			found.silence(e.conn(Calls), start, now, "no answer to a call that has ended")
		}
	}
}

// isSilent reports whether no call of the shape was answered, and no work completed over the
// connection, that began since start.
func (s *subConn) isSilent(of *stat, start time.Time) bool {
	return !of.answered.After(start) && !s.completedSince(start)
}

// silence records that nothing that began since start was completed over the connection.
func (f *findings) silence(s *subConn, start, now time.Time, what string) {
	age := now.Sub(start)
	switch {
	case !s.ep.healthEntry().CompletedSince(start):
		f.suspicion = cmp.Or(f.suspicion, fmt.Sprintf("%s for %v", what, age.Round(time.Millisecond)))
	case !s.heard.After(now.Add(-age/2)) && !slices.Contains(f.silent, s):
		f.silent = append(f.silent, s)
	}
}

func (e *Endpoint) checkStreamsLocked(now time.Time, found *findings) {
	for s := range e.inflight.streams {
		due := s.dueAt()
		if now.Before(due) {
			found.checkBy(due)
			continue
		}
		s.checked(now)
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

// retire closes the connections of an endpoint that is unwanted or removed, once nothing is in flight.
func (e *Endpoint) retire() {
	switch removed := e.removed(); {
	case !removed && !e.unwanted.Load() || e.busy():
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

// stop stops the timer for good.
func (f *inflight) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.due.Store(nil)
	if f.timer != nil {
		f.timer.Stop()
	}
}
