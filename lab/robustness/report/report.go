// Package report turns what a run of faults recorded into rows of figures ([Recording.Measure]), and shows them: as tables for
// people, beside those of other clients, and as JSON for programs.
package report

import (
	"encoding/json"
	"io"
	"time"

	"github.com/quorate/quorate/lab/internal/tally"
)

// SchemaVersion is the "schema" field of the JSON report. It grows when a field
// changes its meaning or is removed, but not for new fields.
const SchemaVersion = 5

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
	// Errors of calls, watches and leases.
	Errors Errors `json:"errors"`
	// Checked counts what was checked; nil if nothing was.
	Checked *tally.Counts `json:"checked"`
	// Verdict on calls, watches, and what the client claimed of its leases.
	tally.Verdict
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

// MarshalJSON returns the fields of the report with these names, and
//
//	schema  SchemaVersion
//	ok      whether the checks found no violation
//
// Names that end in _ms are milliseconds with three decimals. Lists and maps without entries are null, or left out. What is
// not clear from the names:
//
//	rows                what they have is in [Row] and [Calls]
//	errors              code → how often it came, and the first text that came with it, see [Errors]
//	checked             subject → what was counted of it → number
//	violation_counts    promise → number, of packages faults and watchcheck
//	violations          at most ten of each promise: promise, message, evidence
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
