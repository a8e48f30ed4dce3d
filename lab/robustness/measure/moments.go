package measure

import (
	"slices"
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
)

// Span is when a fault was in force, as offsets from the beginning of the run.
type Span struct {
	// From is when its injection began, To when its healing did.
	From, To time.Duration
}

// contains reports whether a moment is in a span, which has not ended while To is 0.
func (s Span) contains(at time.Duration) bool {
	return s.From > 0 && at >= s.From && (s.To == 0 || at < s.To)
}

// Moment is when a member reports a new leader.
type Moment struct {
	// At is when, as an offset from the beginning of the run.
	At time.Duration
	// Leader is the name of the member that leads from now on, Reporter that of the
	// member that reported it.
	Leader, Reporter string
	// Gets, Puts and Watches tell when the load's linearizable gets and puts were
	// completed again, and its watches delivered. A caller whose call had gone to the old
	// leader comes back only when that call has ended.
	Gets, Puts, Watches Resumption
	// NewGets and NewPuts tell when gets and puts were completed that were invoked at the
	// moment, by callers who had nothing under way, and NewEvents when a watch delivered
	// what was put.
	NewGets, NewPuts, NewEvents Resumption
}

// Resumption tells how soon after a moment something went on.
type Resumption struct {
	// Callers counts those who completed a call in the row after the moment, whenever
	// it was invoked, or the watches that delivered an event.
	Callers int `json:"callers"`
	// Last is the time from the moment to when the last of them did so for the first
	// time; 0 if Callers is.
	Last time.Duration `json:"last_ms"`
}

// moment is a Moment and who has gone on since.
type moment struct {
	Moment
	gets, puts, watches         resuming
	newGets, newPuts, newEvents resuming
}

// resuming has the callers that have resumed.
type resuming struct {
	seen []int
	Resumption
}

func (r *resuming) see(who int, after time.Duration) {
	if after < 0 || slices.Contains(r.seen, who) {
		return
	}
	r.seen = append(r.seen, who)
	r.Callers, r.Last = r.Callers+1, max(r.Last, after)
}

func (m *moment) completed(c history.Call) {
	switch c.Kind {
	case history.LinearizableGet:
		m.gets.see(c.Caller, c.End-m.At)
	case history.Put:
		m.puts.see(c.Caller, c.End-m.At)
	default:
	}
}

func (m *moment) snapshot() Moment {
	out := m.Moment
	out.Gets, out.Puts, out.Watches = m.gets.Resumption, m.puts.Resumption, m.watches.Resumption
	out.NewGets, out.NewPuts, out.NewEvents = m.newGets.Resumption, m.newPuts.Resumption, m.newEvents.Resumption
	return out
}

// Inject notes that the injection of the current row's fault begins.
func (m *Meter) Inject(at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.current(); r != nil {
		r.span.From = at
	}
}

// Heal notes that the healing of the current row's fault begins.
func (m *Meter) Heal(at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.current(); r != nil {
		r.span.To = at
		r.healed = &moment{Moment: Moment{At: at}}
	}
}

// Lead notes that a member reports a new leader.
func (m *Meter) Lead(at time.Duration, leader, reporter string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.current(); r != nil {
		r.moments = append(r.moments, &moment{Moment: Moment{At: at, Leader: leader, Reporter: reporter}})
	}
}

// NewGet notes that a caller completed a get that it had invoked at the moment at which
// a new leader was reported.
func (m *Meter) NewGet(since time.Duration, caller int, at time.Duration) {
	m.since(since, func(o *moment) { o.newGets.see(caller, at-since) })
}

// NewPut is NewGet for a put.
func (m *Meter) NewPut(since time.Duration, caller int, at time.Duration) {
	m.since(since, func(o *moment) { o.newPuts.see(caller, at-since) })
}

// NewEvent notes that a watch delivered what was put by such a caller.
func (m *Meter) NewEvent(since time.Duration, caller int, at time.Duration) {
	m.since(since, func(o *moment) { o.newEvents.see(caller, at-since) })
}

// since calls note with the report of a new leader at a moment, if there is one.
func (m *Meter) since(at time.Duration, note func(*moment)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range slices.Backward(m.rows) {
		for _, o := range r.moments {
			if o.At == at {
				note(o)
				return
			}
		}
	}
}

// Repeat notes that a watch delivered events again that it had delivered before, or
// behind later ones.
func (m *Meter) Repeat(events int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.current(); r != nil {
		r.watches.stats.Repeated += events
	}
}
