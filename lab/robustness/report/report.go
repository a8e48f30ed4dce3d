// Package report turns what a run of faults recorded into rows of figures ([Recording.Measure]), and shows them: as tables for
// people, beside those of other clients, and as JSON for programs.
package report

import (
	"encoding/json"
	"io"
	"time"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/callcheck"
)

// SchemaVersion is the "schema" field of the JSON report. It grows when a field
// changes its meaning or goes; new fields may come without that.
const SchemaVersion = 2

// Report is the result of a run.
type Report struct {
	Setup Setup `json:"setup"`
	// Started is when the run began; all times count from there.
	Started time.Time `json:"started"`
	// Duration until the load ended.
	Duration Duration `json:"duration_ms"`
	// Interrupted reports whether the run was ended early on request.
	Interrupted bool `json:"interrupted"`
	// Failure says why the run could not go on; empty if it could.
	Failure string `json:"failure"`
	// Rows in the order in which they happened.
	Rows []Row `json:"rows"`
	// ErrorSamples has one error text for each code.
	ErrorSamples map[string]string `json:"error_samples"`
	// Calls is the verdict on the calls, and on what the client claimed of its leases.
	Calls callcheck.Verdict `json:"check"`
	// Watches is the verdict on the watches.
	Watches WatchCheck `json:"watch_check"`
}

// Setup says what was run, so that two reports can be compared.
type Setup struct {
	// Members of the cluster.
	Members int `json:"members"`
	// Callers of each kind of call, and the number of watches and of leases.
	Callers int `json:"callers_per_kind"`
	// Pause of a caller between two calls.
	Pause Duration `json:"pause_ms"`
	// CallTimeout is the deadline of each call.
	CallTimeout Duration `json:"call_timeout_ms"`
	// Hold is how long each fault is held.
	Hold Duration `json:"fault_held_ms"`
	// LeaseTTL is the time to live of each lease.
	LeaseTTL Duration `json:"lease_ttl_ms"`
	// Seed of the choices of members and keys.
	Seed uint64 `json:"seed"`
}

// WatchCheck is the result of the check of the watches. Its zero value is that of a
// run without watches, or of one that failed before they could be checked.
type WatchCheck struct {
	// Skipped says why they were not checked; empty if they were, or if there were
	// none.
	Skipped string `json:"skipped"`
	// Through is the revision up to which they were checked.
	Through int64 `json:"through_revision"`
	// Watches and Events that were checked.
	Watches int64 `json:"watches"`
	Events  int64 `json:"events"`
	tally.Verdict
}

// OK reports whether nothing is wrong with what was checked: calls, leases and
// watches.
func (r Report) OK() bool { return r.Calls.OK() && r.Watches.OK() }

// Violations returns the number of violations, of calls, leases and watches.
func (r Report) Violations() int { return r.Calls.Total() + r.Watches.Total() }

// FirstViolation returns the message of a violation of a report that has some.
func (r Report) FirstViolation() string {
	return append(r.Calls.Violations, r.Watches.Violations...)[0].Message
}

// MarshalJSON returns the fields of the report with these names, and
//
//	schema  SchemaVersion
//	ok      whether the checks found no violation
//
// Names that end in _ms are milliseconds with three decimals. Lists and maps without entries are null, or left out. What is
// not clear from the names:
//
//	rows
//	  events                  what was done: at_ms, text
//	  leaders                 reports of new leaders; resumed has the new gets, the new puts, their events, and the gets, puts
//	                          and watches of the load: callers that continued, and when the last of them had, counted from
//	                          the report
//	  calls, watches, leases  as [Calls], [Watches] and [Leases] say
//	error_samples             code → the first error text seen with it
//	check                     the verdict of [callcheck.Check], and how many looks at the keys of leases there were
//	watch_check               the verdict of [watchcheck.Check]
//	  violation_counts        promise → number, there and in check
//	  violations              at most ten of each promise: promise, message, evidence
func (r Report) MarshalJSON() ([]byte, error) {
	type fields Report
	return json.Marshal(struct {
		Schema int  `json:"schema"`
		OK     bool `json:"ok"`
		fields
	}{SchemaVersion, r.OK(), fields(r)})
}

// JSON writes a report or a comparison for programs: one indented object and a newline.
func JSON[Result Report | Comparison](w io.Writer, result Result) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(result)
}
