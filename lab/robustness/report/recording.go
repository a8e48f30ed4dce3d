package report

import (
	"encoding/json"
	"math"
	"time"

	"github.com/quorate/quorate/lab/internal/words"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// Recording is what was done in a run, and what its callers, readers and keepers saw. All times count from its beginning.
type Recording struct {
	// Rows in the order in which they happened, one directly behind the other. [Recording.Measure] fills in their figures.
	Rows []Row
	// Calls that have ended.
	Calls []Call
	// Readers of watches.
	Readers []Reader
	// Outside has the writes past the links, in their order.
	Outside []OutsideWrite
	// Samples of errors.
	Samples Samples

	held int64 // leases
}

// Begin begins a row, at the end of the one before.
func (r *Recording) Begin(name string, at Duration) {
	r.Rows = append(r.Rows, Row{Name: name, Start: at, Leases: Leases{Kept: r.held}})
}

// Current returns the row that has not ended, nil if there is none.
func (r *Recording) Current() *Row {
	if n := len(r.Rows); n > 0 && r.Rows[n-1].End == 0 {
		return &r.Rows[n-1]
	}
	return nil
}

// LeaseGranted records that a keeper has another lease.
func (r *Recording) LeaseGranted() { r.lease(1, func(*Leases) {}) }

// LeaseRenewed records that a keepalive was answered.
func (r *Recording) LeaseRenewed() { r.lease(0, func(l *Leases) { l.Renewals++ }) }

// LeaseLost records that a keeper lost its lease, as the code says, and the error if there is one.
func (r *Recording) LeaseLost(code string, err error) {
	r.lease(-1, func(l *Leases) {
		l.Expired++
		r.Samples.add(&l.Codes, "lease ", code, textOf(err))
	})
}

// LeaseFailed records that a keeper without a lease failed to get one.
func (r *Recording) LeaseFailed(err error) {
	r.lease(0, func(l *Leases) {
		l.Failures++
		r.Samples.add(&l.Codes, "lease ", CodeOf(err), err.Error())
	})
}

// lease records what happens to a lease in the current row.
func (r *Recording) lease(held int64, change func(*Leases)) {
	r.held += held
	if row := r.Current(); row != nil {
		row.Leases.Kept = r.held
		change(&row.Leases)
	}
}

// Call is a call that has ended.
type Call struct {
	Kind history.Kind
	model.Operation
	// Keys of the operation. Calls of one group have the same pointer.
	Keys *[model.Keys]string
	// Code of the error that it ended with, see [CodeOf].
	Code string
}

// changes returns what the call wrote, or may have written: no two calls write the same.
func (c *Call) changes() (made []change) {
	if c.Outcome == history.Failed || c.Outcome == history.OK && !c.Response.Succeeded {
		return nil
	}
	for _, act := range c.Request.Then {
		if act.Verb == model.Write {
			made = append(made, change{c.Keys[act.Key], act.Value})
		}
	}
	return made
}

// Reader has the watches of one reader, in their order. All are on the keys of the request.
type Reader struct {
	Request history.WatchRequest
	Watches []history.Watch
}

// OutsideWrite is a write past the links.
type OutsideWrite struct {
	// Acknowledged is when the write was, 0 if it failed, and Delivered when a watch of the client delivered its event, 0 if it
	// did not.
	Acknowledged, Delivered time.Duration
}

// Duration is a [time.Duration] as reports show it: milliseconds in JSON, about three digits in tables.
type Duration time.Duration

// MarshalJSON returns milliseconds with three decimals.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(math.Round(float64(d)/float64(time.Microsecond)) / 1000)
}

func (d Duration) String() string { return words.Duration(time.Duration(d)) }

// Row has the figures of one stretch of a run: the healthy one, or that of a fault.
//
// A call belongs to the row in which it was invoked, whenever it ended, so that a fault answers for the calls that met it. A
// gap belongs to the row in which it happened. An event belongs to the row in which its write was invoked, for the same
// reason, and so does one that is missing. What happens to a lease belongs to the row in which its keeper received it.
type Row struct {
	// Name is "healthy" or that of the fault.
	Name  string   `json:"name"`
	Start Duration `json:"start_ms"`
	End   Duration `json:"end_ms"`
	// Fault is when the injection of the fault began, and Heal when its healing did; 0 without one.
	Fault Duration `json:"fault_ms"`
	Heal  Duration `json:"heal_ms"`
	// Notes tell what was done.
	Notes []Note `json:"events,omitempty"`
	// Leaders are the reports of new leaders.
	Leaders []Leader `json:"leaders,omitempty"`
	// Calls has the figures of each kind of call.
	Calls [history.NumKinds]Calls `json:"calls"`
	// Watches has the figures of all watches, Leases those of all leases.
	Watches Watches `json:"watches"`
	Leases  Leases  `json:"leases"`
	// OutsideDelay is the longest time from the acknowledgement of a write past the links to the delivery of its event.
	OutsideDelay Duration `json:"outside_delay_max_ms"`
}

// contains reports whether a moment is in the row.
func (r *Row) contains(at time.Duration) bool { return Duration(at) >= r.Start && Duration(at) < r.End }

// Note is something that was done to the cluster.
type Note struct {
	At   Duration `json:"at_ms"`
	Text string   `json:"text"`
}

// Leader is the first report of a new leader.
type Leader struct {
	At Duration `json:"at_ms"`
	// Leader is the name of the member that leads from now on, Reporter that of the member that reported it.
	Leader   string `json:"leader"`
	Reporter string `json:"reporter"`
	// Resumed says how soon what continued.
	Resumed [3]Resumption `json:"resumed"`
}

// What resumes after the report of a new leader.
const (
	// NewGets and NewPuts are invoked at that moment, by callers that have nothing under way, and NewEvents are the events of
	// these puts.
	NewGets = iota
	NewPuts
	NewEvents
)

// Resumption tells how soon after a moment calls succeed.
type Resumption struct {
	// Callers counts those whose call was completed, or its event delivered.
	Callers int `json:"callers"`
	// Last is the time from the moment until the last of these.
	Last Duration `json:"last_ms"`
}

// Add counts a caller whose call was completed after a time.
func (r *Resumption) Add(after time.Duration) {
	r.Callers, r.Last = r.Callers+1, max(r.Last, Duration(after))
}

// Calls has the figures of one kind of call.
type Calls struct {
	Kind history.Kind `json:"kind"`
	// Completed, Errors and Unknown count the calls that were answered, that failed, and that were writes and may or may not
	// have been executed.
	Completed int64 `json:"completed"`
	// Held counts the calls that were completed between injection and healing, whenever they were invoked.
	Held    int64 `json:"completed_under_fault"`
	Errors  int64 `json:"errors"`
	Unknown int64 `json:"unknown"`
	// LongestGap is the longest time in which no call was completed.
	LongestGap Duration `json:"longest_gap_ms"`
	// P50, P99 and Max tell how long callers waited for the end of a call, whatever the outcome.
	P50 Duration `json:"p50_ms"`
	P99 Duration `json:"p99_ms"`
	Max Duration `json:"max_ms"`
	// Codes counts the calls that were not completed by the code of their error.
	Codes map[string]int64 `json:"error_codes,omitempty"`
}

// Watches has the figures of all watches.
type Watches struct {
	// Delivered counts the events that readers took; a change that several watches deliver counts for each of them, one that a
	// watch delivers twice once.
	Delivered int64 `json:"delivered"`
	// DelayP50, DelayP99 and DelayMax tell how late the events were: the time from the acknowledgement of the write to the
	// moment at which the reader took the event, 0 if it did before. A write with an unknown outcome was never acknowledged,
	// and when it was executed is not known: it may have waited in a stopped member for all of the fault. There the delay
	// counts from the first delivery to any reader.
	DelayP50 Duration `json:"delay_p50_ms"`
	DelayP99 Duration `json:"delay_p99_ms"`
	DelayMax Duration `json:"delay_max_ms"`
	// Lost counts the events that were never delivered, once for each watch.
	Lost int64 `json:"lost"`
	// Repeated counts the events that a watch delivered again, or behind later ones.
	Repeated int64 `json:"repeated"`
	// Ended counts the watches that ended by themselves, and Codes by which error.
	Ended int64            `json:"ended"`
	Codes map[string]int64 `json:"error_codes,omitempty"`
}

// Leases has the figures of all leases.
type Leases struct {
	// Kept counts the leases that were held in the row and did not expire in it, Expired those that their keepers lost.
	Kept    int64 `json:"kept"`
	Expired int64 `json:"expired"`
	// Renewals counts the keepalives that were answered.
	Renewals int64 `json:"renewals"`
	// Failures counts the attempts of keepers without a lease that failed.
	Failures int64 `json:"failures"`
	// Codes counts the expired leases and the failures by their codes.
	Codes map[string]int64 `json:"error_codes,omitempty"`
}
