// Package measure turns what a run saw into rows of figures: one row for each
// stretch of time, in it one [Stats] for each kind of call, and the [WatchStats]
// and [LeaseStats] of all watches and leases.
//
// A call belongs to the row in which it was invoked, whenever it ended, so that
// a fault answers for the calls that met it. A gap belongs to the row in which
// it happened: it is the longest time between the row's beginning and its end
// in which no call of the kind was completed, whenever those calls were invoked.
//
// A delivered event belongs to the row in which its write was invoked, for the
// same reason, and so does one that is missing. Its delay is the time from the
// acknowledgement of the write to the moment when the reader of the watch took the
// event from the channel; 0 if the event was there first. A write whose outcome is
// unknown was never acknowledged; there the delay counts from its invocation. A
// silence belongs to the row in which it happened: it is the longest time in which
// a watch delivered nothing although a change was undelivered whose write had
// been acknowledged.
//
// What happens to a lease belongs to the row in which its keeper received it.
package measure

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
)

// Stats holds the figures of one kind of call in one row.
type Stats struct {
	// Completed, Errors and Unknown count the calls that were answered, that
	// failed, and that were writes and may or may not have been executed.
	Completed int64 `json:"completed"`
	// Held counts the calls that were completed while the row's fault was in force,
	// whenever they were invoked; 0 in a row without a fault.
	Held    int64 `json:"completed_under_fault"`
	Errors  int64 `json:"errors"`
	Unknown int64 `json:"unknown"`
	// LongestGap is the longest time in which no call was completed.
	LongestGap time.Duration `json:"longest_gap_ms"`
	// P50, P99 and Max tell how long callers waited for the end of a call,
	// whatever the outcome. P50 and P99 are at most 0.8 % too high, never too low.
	P50 time.Duration `json:"p50_ms"`
	P99 time.Duration `json:"p99_ms"`
	Max time.Duration `json:"max_ms"`
	// MaxBehind is how many revisions a serializable get was behind at most.
	MaxBehind int64 `json:"max_revisions_behind"`
	// Codes counts the calls that were not completed by the code of their error.
	Codes map[string]int64 `json:"error_codes"`
}

// Calls returns the number of calls that ended.
func (s Stats) Calls() int64 { return s.Completed + s.Errors + s.Unknown }

// Row holds the figures of one stretch of the run.
type Row struct {
	// Name of the row: a fault, or "healthy".
	Name string
	// Notes tell what was done in the row, and when.
	Notes []Note
	// Fault is when the row's fault was in force; zero without one.
	Fault Span
	// Moments are the reports of a new leader, in order.
	Moments []Moment
	// HealedGets and HealedPuts tell when gets and puts were completed after the healing of the fault began.
	HealedGets, HealedPuts Resumption
	// OutsideDelay is the longest time from the acknowledgement of a write that was made past
	// the links to the delivery of its event.
	OutsideDelay time.Duration
	// Start and End bound the row, as offsets from the beginning of the run.
	Start, End time.Duration
	// Open reports whether the row has not ended; End is then the present.
	Open bool
	// Kinds holds the figures of the calls, indexed by kind.
	Kinds [history.NumKinds]Stats
	// Watches holds the figures of all watches, Leases those of all leases.
	Watches WatchStats
	Leases  LeaseStats
}

// Note is something that was done to the cluster.
type Note struct {
	// At is when, as an offset from the beginning of the run.
	At time.Duration `json:"at_ms"`
	// Text says what was done.
	Text string `json:"text"`
}

// Meter records what happens in rows. Its methods may be called
// concurrently; the zero value is ready to use.
type Meter struct {
	mu      sync.Mutex
	rows    []*row
	samples map[string]string
	watches watches
	leases  int64 // held at present
	outside outside
}

type row struct {
	name       string
	notes      []Note
	span       Span
	moments    []*moment
	healed     *moment
	outside    time.Duration // OutsideDelay
	start, end time.Duration // end counts once open is false
	open       bool
	kinds      [history.NumKinds]tally
	watches    watchTally
	leases     leaseTally
}

// tally has the figures of one kind of call in one row.
type tally struct {
	stats     Stats
	durations histogram
	// last is when a call was completed last, or when the row began.
	last time.Duration
}

// Begin ends the current row, if there is one, and begins the next.
func (m *Meter) Begin(name string, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endRow(at)
	r := &row{name: name, start: at, open: true}
	r.leases.held = m.leases
	m.watches.begin(at)
	for i := range r.kinds {
		r.kinds[i].last = at
	}
	m.rows = append(m.rows, r)
}

// End ends the current row; calls that are invoked later are counted nowhere.
func (m *Meter) End(at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endRow(at)
}

func (m *Meter) endRow(at time.Duration) {
	r := m.current()
	if r == nil {
		return
	}
	for i := range r.kinds {
		r.kinds[i].completed(at)
	}
	r.watches.silent(m.watches.silence(at))
	if r.span.From > 0 && r.span.To == 0 {
		r.span.To = at
	}
	r.end, r.open = at, false
}

// current returns the row that has begun and not ended, or nil.
func (m *Meter) current() *row {
	if n := len(m.rows); n > 0 && m.rows[n-1].open {
		return m.rows[n-1]
	}
	return nil
}

// Note adds a note to the current row; without one it is dropped.
func (m *Meter) Note(at time.Duration, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.current(); r != nil {
		r.notes = append(r.notes, Note{At: at, Text: text})
	}
}

// Observe records a call that has ended. Abandoned calls, and those invoked
// outside every row, are not counted.
func (m *Meter) Observe(call history.Call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.current(); r != nil && call.Outcome == history.OK {
		r.complete(call)
	}
	r := m.rowAt(call.Start)
	if r == nil {
		return
	}
	m.watches.settle(call, r)
	if call.Outcome != history.Abandoned {
		r.kinds[call.Kind].count(call)
		m.sample(call.Code, call.Err)
	}
}

// rowAt returns the row that holds a moment, or nil.
func (m *Meter) rowAt(at time.Duration) *row {
	for _, r := range slices.Backward(m.rows) {
		if at >= r.start {
			if r.open || at < r.end {
				return r
			}
			return nil
		}
	}
	return nil
}

// sample keeps the first error text of each code.
func (m *Meter) sample(code string, err error) {
	if err == nil || m.samples[code] != "" {
		return
	}
	if m.samples == nil {
		m.samples = map[string]string{}
	}
	m.samples[code] = err.Error()
}

// complete records a call that was completed in the row.
func (r *row) complete(call history.Call) {
	t := &r.kinds[call.Kind]
	t.completed(call.End)
	if r.span.contains(call.End) {
		t.stats.Held++
	}
	for _, m := range r.moments {
		m.completed(call)
	}
	if r.healed != nil {
		r.healed.completed(call)
	}
}

// completed notes that a call was completed, or that the row ends. Two calls
// that end within microseconds of each other may arrive in either order; the
// later arrival of the earlier one changes nothing.
func (t *tally) completed(at time.Duration) {
	t.stats.LongestGap = max(t.stats.LongestGap, at-t.last)
	t.last = max(t.last, at)
}

func (t *tally) count(call history.Call) {
	s := &t.stats
	switch call.Outcome {
	case history.OK:
		s.Completed++
	case history.Unknown:
		s.Unknown++
	default:
		s.Errors++
	}
	if call.Outcome != history.OK {
		increment(&s.Codes, call.Code)
	}
	s.MaxBehind = max(s.MaxBehind, call.Behind)
	t.durations.add(call.End - call.Start)
}

func increment(counts *map[string]int64, code string) {
	if *counts == nil {
		*counts = map[string]int64{}
	}
	(*counts)[code]++
}

// Rows returns the rows so far; the current one, if any, as if it ended now.
func (m *Meter) Rows(now time.Duration) []Row {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outside.note(m.outside.undelivered, now)
	rows := make([]Row, 0, len(m.rows))
	for _, r := range m.rows {
		rows = append(rows, r.snapshot(now))
	}
	if r := m.current(); r != nil {
		stats := &rows[len(rows)-1].Watches
		stats.LongestSilence = max(stats.LongestSilence, m.watches.silence(now))
	}
	for r, n := range m.watches.undelivered() {
		rows[slices.Index(m.rows, r)].Watches.Undelivered = n
	}
	return rows
}

// ErrorSamples returns the first error text that was seen with each code. The
// codes of watches have "watch " before them here, those of leases "lease ".
func (m *Meter) ErrorSamples() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.samples)
}

func (r *row) snapshot(now time.Duration) Row {
	out := Row{Name: r.name, Notes: slices.Clone(r.notes), Start: r.start, End: r.end, Open: r.open}
	if r.open {
		out.End = now
	}
	for i := range r.kinds {
		t := &r.kinds[i]
		s := t.stats
		if r.open {
			s.LongestGap = max(s.LongestGap, now-t.last)
		}
		s.Codes = maps.Clone(s.Codes)
		s.P50, s.P99, s.Max = t.durations.quantile(0.50), t.durations.quantile(0.99), t.durations.max
		out.Kinds[i] = s
	}
	out.Watches, out.Leases = r.watches.snapshot(), r.leases.snapshot()
	out.Fault, out.OutsideDelay = r.span, r.outside
	for _, m := range r.moments {
		out.Moments = append(out.Moments, m.snapshot())
	}
	if r.healed != nil {
		out.HealedGets, out.HealedPuts = r.healed.gets.Resumption, r.healed.puts.Resumption
	}
	return out
}
