// Package report shows what a run of the lab measured: as a table for people,
// as JSON for programs, and live while the run lasts.
//
// Everything here turns values into text; nothing reads a clock, a terminal or
// the cluster.
package report

import (
	"time"

	"github.com/quorate/quorate/lab/robustness/callcheck"
	"github.com/quorate/quorate/lab/robustness/measure"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

// Setup says what was run, so that two reports can be compared.
type Setup struct {
	// Members of the cluster.
	Members int `json:"members"`
	// Callers of each kind of call.
	Callers int `json:"callers_per_kind"`
	// Pause of a caller between two calls.
	Pause time.Duration `json:"pause_ms"`
	// CallTimeout is the deadline of each call.
	CallTimeout time.Duration `json:"call_timeout_ms"`
	// Hold is how long each fault is held.
	Hold time.Duration `json:"fault_held_ms"`
	// LeaseTTL is the time to live of each lease.
	LeaseTTL time.Duration `json:"lease_ttl_ms"`
	// Seed of the choices that the run made.
	Seed uint64 `json:"seed"`
}

// Report is the result of a run.
type Report struct {
	// Setup says what was run.
	Setup Setup
	// Started is when the load began; the offsets of the rows count from here.
	Started time.Time
	// Duration of the load.
	Duration time.Duration
	// Interrupted reports whether the run was ended early on request.
	Interrupted bool
	// Failure says why the run could not go on; empty if it could.
	Failure string
	// Rows in the order in which they happened.
	Rows []measure.Row
	// ErrorSamples has one error text for each code.
	ErrorSamples map[string]string
	// Verdict on the calls, and on what the client claimed of its leases, see
	// [LeaseEndedEarly].
	Verdict callcheck.Verdict
	// LeaseLooks counts the linearizable reads of the keys of leases, which show
	// whether a lease lives as long as the client claims.
	LeaseLooks int64
	// Watches is the verdict on the watches.
	Watches WatchCheck
}

// LeaseEndedEarly means that the key of a lease was gone while the client claimed the
// lease to live. Either the client counted wrongly or the server ended the lease before
// its time. etcd does that when a leader was paused for longer than the TTL and goes on:
// it ends the leases that expired by its own count, renewed or not; of the lab's faults
// only leader-stop could show it.
const LeaseEndedEarly callcheck.Problem = "lease_ended_early"

// OK reports whether nothing is wrong with what was checked: calls, leases and
// watches.
func (r Report) OK() bool { return r.Verdict.OK() && r.Watches.Verdict.OK() }

// Violations returns the number of violations, of calls, leases and watches.
func (r Report) Violations() int { return r.Verdict.Total() + r.Watches.Verdict.Total() }

// WatchCheck is the result of the check of the watches. Its zero value is that of a
// run without watches, or of one that failed before they could be checked.
type WatchCheck struct {
	// Verdict on what the readers saw.
	Verdict watchcheck.Verdict
	// Through is the revision up to which they were checked.
	Through int64
	// Skipped says why they were not checked; empty if they were, or if there were
	// none.
	Skipped string
}
