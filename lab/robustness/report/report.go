// Package report turns what a run of faults recorded into rows of figures ([Recording.Measure]), and shows them as tables, beside
// those of other clients.
package report

import (
	"time"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// Kinds are the kinds of call that a load makes.
var Kinds = []model.Kind{model.Get, model.SerializableGet, model.Put, model.Txn}

// Report is the result of a run.
type Report struct {
	Client
	// Setup says what was run, in sentences.
	Setup string
	// Interrupted reports whether the run was ended early on request.
	Interrupted bool
	// Failure says why the run could not go on; empty if it could.
	Failure string
	// Rows in the order in which they happened.
	Rows []Row
	// Errors of calls, watches and leases.
	Errors Errors
	// Checked counts what was checked; nil if nothing was.
	Checked *tally.Counts
	// Verdict on calls, watches, and what the client claimed of its leases.
	tally.Verdict
}

// Client says which client a run used.
type Client struct {
	// ID names it for programs, and Label in tables.
	ID, Label string
	// Description says how it was configured.
	Description string
}

// Row has the figures of one stretch of a run: the healthy one, or that of a fault.
//
// A call belongs to the row in which it was invoked, whenever it ended, so that a fault answers for the calls that met it. A
// gap belongs to the row in which it happened. An event belongs to the row in which its write was invoked, for the same
// reason. The loss of a lease belongs to the row in which its keeper learnt of it.
type Row struct {
	// Name is "healthy" or that of the fault.
	Name       string
	Start, End time.Duration
	// Fault is when the injection of the fault began, and Heal when its healing did; 0 without one.
	Fault, Heal time.Duration
	// Calls has the figures of each kind of call.
	Calls map[model.Kind]Calls
	// EventDelay is how late an event was at most: the time from the acknowledgement of the write to the moment at which the
	// reader took the event. The event of a write with an unknown outcome has no delay, because that write was never
	// acknowledged.
	EventDelay time.Duration
	// LeasesLost counts the leases whose keepalive the client ended.
	LeasesLost int
}

// contains reports whether a moment is in the row.
func (r *Row) contains(at time.Duration) bool { return at >= r.Start && at < r.End }

// Calls has the figures of one kind of call.
type Calls struct {
	// Completed, Errors and Unknown count the calls that were answered, that failed, and that were writes and may or may not
	// have been executed.
	Completed, Errors, Unknown int
	// Held counts the calls that were completed between injection and healing, whenever they were invoked.
	Held int
	// LongestGap is the longest time in which no call was completed.
	LongestGap time.Duration
	// Max is how long a caller waited at most for the end of a call, whatever the outcome.
	Max time.Duration
}

// Errors counts the calls that failed, the watches that ended and the leases that were lost, by the code of the error. The codes
// of watches have "watch " before them, those of leases "lease ".
type Errors map[string]Errored

// Errored counts the errors of one code, and has the text of the first.
type Errored struct {
	Count  int
	Sample string
}

func (e Errors) add(code string, err error) {
	had := e[code]
	had.Count++
	if err != nil && had.Sample == "" {
		had.Sample = err.Error()
	}
	e[code] = had
}
