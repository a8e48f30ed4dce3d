package report

import (
	"encoding/json"
	"math"
	"time"

	"github.com/quorate/quorate/lab/internal/stats"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// Recording is what was done in a run, and what its callers, readers and keepers saw. All times count from its beginning.
type Recording struct {
	// Rows in the order in which they happened, one directly behind the other. [Recording.Measure] fills in their figures.
	Rows []Row
	// Calls that have ended.
	Calls []Call
	// Readers has the watches of each reader, in their order.
	Readers [][]history.Watch
	// Outside has the writes past the links, in their order.
	Outside []OutsideWrite
	// Errors has those of all rows.
	Errors Errors
}

// Current returns the row in progress, nil if there is none.
func (r *Recording) Current() *Row {
	if n := len(r.Rows); n > 0 && r.Rows[n-1].End == 0 {
		return &r.Rows[n-1]
	}
	return nil
}

// LeaseLost records that a keeper lost its lease, by a code for the reason, with the error if there is one.
func (r *Recording) LeaseLost(code string, err error) {
	if row := r.Current(); row != nil {
		row.LeasesLost++
		r.Errors.add("lease "+code, err)
	}
}

// LeaseFailed records that a keeper without a lease failed to get one.
func (r *Recording) LeaseFailed(err error) {
	if r.Current() != nil {
		r.Errors.add("lease "+codeOf(err), err)
	}
}

// Call is a call that has ended.
type Call struct {
	Kind history.Kind
	model.Operation
	// Keys of the operation. Calls of one group have the same pointer.
	Keys *[model.Keys]string
	// Failure is the error that it ended with.
	Failure error
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

// OutsideWrite is a write past the links.
type OutsideWrite struct {
	// Acknowledged is when the server acknowledged the write, 0 if it failed. Delivered is when a watch of the client delivered
	// its event, 0 if none did.
	Acknowledged, Delivered time.Duration
}

// Duration is a [time.Duration] as reports show it: milliseconds in JSON, three digits in tables.
type Duration time.Duration

// MarshalJSON returns milliseconds with three decimals.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(math.Round(float64(d)/float64(time.Microsecond)) / 1000)
}

// String returns three digits: "0.84 ms", "8.4 ms", "123 ms", "1.23 s", "123 s".
func (d Duration) String() string {
	if ms := float64(d) / float64(time.Millisecond); ms < 999.5 {
		return stats.Text(ms) + " ms"
	}
	return stats.Text(time.Duration(d).Seconds()) + " s"
}

// Row has the figures of one stretch of a run: the healthy one, or that of a fault.
//
// A call belongs to the row in which it was invoked, whenever it ended, so that a fault answers for the calls that met it. A
// gap belongs to the row in which it happened. An event belongs to the row in which its write was invoked, for the same
// reason. The loss of a lease belongs to the row in which its keeper learnt of it.
type Row struct {
	// Name is "healthy" or that of the fault.
	Name  string   `json:"name"`
	Start Duration `json:"start_ms"`
	End   Duration `json:"end_ms"`
	// Fault is when the injection of the fault began, and Heal when its healing did; 0 without one.
	Fault Duration `json:"fault_ms"`
	Heal  Duration `json:"heal_ms"`
	// Calls has the figures of each kind of call.
	Calls [history.NumKinds]Calls `json:"calls"`
	// Events counts those that readers took, once for each reader.
	Events int64 `json:"events"`
	// EventDelay is how late an event was at most: the time from the acknowledgement of the write to the moment at which the
	// reader took the event. The event of a write with an unknown outcome has no delay, because that write was never
	// acknowledged.
	EventDelay Duration `json:"event_delay_max_ms"`
	// OutsideDelay is the longest time from the acknowledgement of a write past the links to the delivery of its event.
	OutsideDelay Duration `json:"outside_delay_max_ms"`
	// LeasesLost counts the leases that expired, and those whose keep-alive reported an expiry.
	LeasesLost int64 `json:"leases_lost"`
}

// contains reports whether a moment is in the row.
func (r *Row) contains(at time.Duration) bool { return Duration(at) >= r.Start && Duration(at) < r.End }

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
}

// Errors counts the calls that failed, the watches that ended and the leases that expired, by the code of the error. The codes
// of watches have "watch " before them, those of leases "lease ".
type Errors map[string]Errored

// Errored counts the errors of one code, and has the text of the first.
type Errored struct {
	Count  int64  `json:"count"`
	Sample string `json:"sample"`
}

func (e Errors) add(code string, err error) {
	had := e[code]
	had.Count++
	if err != nil && had.Sample == "" {
		had.Sample = err.Error()
	}
	e[code] = had
}
