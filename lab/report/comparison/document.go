// Package comparison tells how several clients got through the same faults: as JSON
// for programs, as a table for a terminal, and as one HTML page with a timeline of each
// fault, the clients side by side.
//
// A [Document] holds what there is to tell. Everything here turns it into text; nothing
// reads a clock, a terminal or a cluster.
package comparison

import (
	"encoding/json"
	"time"

	"github.com/quorate/quorate/lab/history"
)

// SchemaVersion is the "schema" field of a Document. It grows when a field changes its
// meaning or goes; new fields may come without that.
const SchemaVersion = 1

// Document is a comparison. Names that end in MS are milliseconds, with three decimals at
// most. Slices that have no element are empty and not null.
type Document struct {
	// Schema is SchemaVersion.
	Schema int `json:"schema"`
	// Started is when the first client's load began.
	Started time.Time `json:"started"`
	// Setup is what every client was put through.
	Setup Setup `json:"setup"`
	// BucketMS is how much time one element of a timeline stands for.
	BucketMS float64 `json:"bucket_ms"`
	// LateAfterMS is how long a call may have taken that does not count as late.
	LateAfterMS float64 `json:"late_after_ms"`
	// Faults are those that were to be injected, in order.
	Faults []Fault `json:"faults"`
	// Clients are those that were run, in order.
	Clients []Client `json:"clients"`
	// Interrupted reports whether the comparison was ended early on request; the last
	// client then has not met every fault, and others may be missing.
	Interrupted bool `json:"interrupted"`
}

// Setup says what was run.
type Setup struct {
	// Members of the cluster.
	Members int `json:"members"`
	// CallersPerKind is the number of callers of each kind of call, of watches and of
	// leases.
	CallersPerKind int `json:"callers_per_kind"`
	// PauseMS is the pause of a caller between two calls.
	PauseMS float64 `json:"pause_ms"`
	// CallTimeoutMS is the deadline of each call.
	CallTimeoutMS float64 `json:"call_timeout_ms"`
	// FaultHeldMS is how long each fault was held.
	FaultHeldMS float64 `json:"fault_held_ms"`
	// LeaseTTLMS is the time to live of each lease.
	LeaseTTLMS float64 `json:"lease_ttl_ms"`
	// Seed of the choice of members and keys, the same for every client.
	Seed uint64 `json:"seed"`
}

// Fault is a fault that every client met.
type Fault struct {
	// Name by which it is chosen.
	Name string `json:"name"`
	// Summary says in half a sentence what happens.
	Summary string `json:"summary"`
}

// Client is a client, and how it did.
type Client struct {
	// ID names the client for programs, Label in a word for tables, and Name in full.
	ID    string `json:"id"`
	Label string `json:"label"`
	Name  string `json:"name"`
	// Description says how it was configured.
	Description string `json:"description"`
	// StatesKnown reports whether the client says what it makes of each endpoint.
	StatesKnown bool `json:"states_known"`
	// Failure says why its run could not go on, or is empty.
	Failure string `json:"failure"`
	// Violations counts the broken promises that the checks found, of all faults, and
	// Samples has the texts of some.
	Violations int      `json:"violations"`
	Samples    []string `json:"violation_samples"`
	// HealthyRate is how many calls were completed in a second, by kind, before the
	// first fault.
	HealthyRate map[string]float64 `json:"healthy_rate"`
	// Runs has one element for each fault that the client met, in order.
	Runs []Run `json:"runs"`
	// Report is the client's whole report, as "quorate-lab faults --json" prints it.
	Report json.RawMessage `json:"report"`
}

// Run is how a client got through a fault. Its times count from the moment at which the
// injection of the fault began, except where they are durations.
type Run struct {
	// Fault is its name.
	Fault string `json:"fault"`
	// HealMS is when its healing began, and ReadyMS when all members were ready again; 0
	// if they were not.
	HealMS  float64 `json:"heal_ms"`
	ReadyMS float64 `json:"ready_ms"`
	// Figures sum the run up.
	Figures Figures `json:"figures"`
	// Moments are the injection and each report of a new leader, in order.
	Moments []Moment `json:"moments"`
	// Events are what was done to the cluster, and seen of it.
	Events []Event `json:"events"`
	// Timeline is what it looked like.
	Timeline Timeline `json:"timeline"`
}

// Figures sum up what callers, watches and leases met under a fault, until the calls that
// met it had ended and for a while longer.
type Figures struct {
	// Calls has the figures of each kind of call, by its id.
	Calls map[string]CallFigures `json:"calls"`
	// SlowestWatchMS is the longest time from the acknowledgement of a write, or from its
	// sending if the outcome was unknown, to the delivery of its event.
	SlowestWatchMS float64 `json:"slowest_watch_ms"`
	// WatchSilenceMS is the longest time in which a watch delivered nothing although it
	// owed an event.
	WatchSilenceMS float64 `json:"watch_silence_ms"`
	// Delivered counts the events that were delivered, Lost those that never were, and
	// Repeated those that came again or behind later ones.
	Delivered int64 `json:"delivered"`
	Lost      int64 `json:"lost"`
	Repeated  int64 `json:"repeated"`
	// LeasesExpired counts the leases that were lost, and SmallestMarginMS is the least
	// time that was left of one when it was renewed.
	LeasesExpired    int64   `json:"leases_expired"`
	SmallestMarginMS float64 `json:"smallest_margin_ms"`
}

// CallFigures are those of one kind of call.
type CallFigures struct {
	// CompletedPercent is how many calls were completed in a second while the fault was
	// in force, in percent of HealthyRate; 0 without a HealthyRate.
	CompletedPercent float64 `json:"completed_percent"`
	// Completed, Failed and Unknown count the calls by their outcome: answered, certainly
	// without effect, and writes that may or may not have been executed.
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	Unknown   int64 `json:"unknown"`
	// LongestGapMS is the longest time in which no call was completed, SlowestMS how long
	// the slowest call took, whatever its outcome.
	LongestGapMS float64 `json:"longest_gap_ms"`
	SlowestMS    float64 `json:"slowest_ms"`
}

// Moment is something after which callers are to get on.
type Moment struct {
	// AtMS is when. Leader is the member that leads from now on, as Reporter said; both
	// are empty for the injection of the fault.
	AtMS     float64 `json:"at_ms"`
	Leader   string  `json:"leader"`
	Reporter string  `json:"reporter"`
	// Gets, Puts and Watches tell when the load's linearizable gets and puts were
	// completed again, and its watches delivered. A caller whose call had gone to the old
	// leader comes back only when that call has ended.
	Gets    Resumption `json:"gets"`
	Puts    Resumption `json:"puts"`
	Watches Resumption `json:"watches"`
	// NewGets and NewPuts tell when gets and puts were completed that were invoked at the
	// moment, by callers who had nothing under way, and NewEvents when a watch delivered
	// what was put. They are zero for the injection of a fault.
	NewGets   Resumption `json:"new_gets"`
	NewPuts   Resumption `json:"new_puts"`
	NewEvents Resumption `json:"new_events"`
}

// Resumption tells how soon after a moment something went on.
type Resumption struct {
	// Callers counts those who went on before the run ended, of CallersPerKind.
	Callers int `json:"callers"`
	// FirstMS and LastMS are the times from the moment until the first of them had gone
	// on, and the last; 0 if Callers is.
	FirstMS float64 `json:"first_ms"`
	LastMS  float64 `json:"last_ms"`
}

// Event is something that happened.
type Event struct {
	// AtMS is when, and Text says what.
	AtMS float64 `json:"at_ms"`
	Text string  `json:"text"`
}

// Timeline is what a fault looked like, in buckets of BucketMS. All slices but Bands are
// of equal length.
type Timeline struct {
	// FromMS is when the first bucket begins.
	FromMS float64 `json:"from_ms"`
	// Calls has the calls that ended in each bucket, by the id of their kind.
	Calls map[string]Calls `json:"calls"`
	// LagMS is, at its worst in each bucket, the age of the oldest change that a watch
	// owed or had just delivered.
	LagMS []float64 `json:"lag_ms"`
	// MarginMS is the least time that was left of a lease when it was renewed, -1 where
	// none was renewed.
	MarginMS []float64 `json:"margin_ms"`
	// Expired counts the leases that were lost.
	Expired []int64 `json:"expired"`
	// Bands are what the client made of each member, none if it does not say.
	Bands []Band `json:"bands"`
}

// Calls counts calls by the bucket in which they ended. Each counts once.
type Calls struct {
	// Completed calls were answered within LateAfterMS, Late ones after more.
	Completed []int64 `json:"completed"`
	Late      []int64 `json:"late"`
	// Failed calls certainly had no effect, Unknown are writes that may or may not have
	// been executed.
	Failed  []int64 `json:"failed"`
	Unknown []int64 `json:"unknown"`
}

// Band is a stretch of time in which a client saw a member in one state.
type Band struct {
	// Member is the member's name, State the client's own name for what it made of it.
	Member string `json:"member"`
	State  string `json:"state"`
	// FromMS and ToMS bound the stretch.
	FromMS float64 `json:"from_ms"`
	ToMS   float64 `json:"to_ms"`
}

// Get and Put are the kinds of call that tables show.
var (
	get = history.LinearizableGet.ID()
	put = history.Put.ID()
)

// run returns how a client got through a fault, or nil if it did not meet it.
func (c *Client) run(fault int) *Run {
	if fault >= len(c.Runs) {
		return nil
	}
	return &c.Runs[fault]
}

// slowest returns how long the slowest call of any kind took.
func (f Figures) slowest() (ms float64) {
	for _, c := range f.Calls {
		ms = max(ms, c.SlowestMS)
	}
	return ms
}

// unknown counts the writes of unknown outcome.
func (f Figures) unknown() (n int64) {
	for _, c := range f.Calls {
		n += c.Unknown
	}
	return n
}

// failed counts the calls that failed.
func (f Figures) failed() (n int64) {
	for _, c := range f.Calls {
		n += c.Failed
	}
	return n
}
