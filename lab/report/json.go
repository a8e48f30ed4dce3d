package report

import (
	"encoding/json"
	"io"
	"math"
	"time"

	"github.com/quorate/quorate/lab/check"
	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/measure"
)

// SchemaVersion is the "schema" field of the JSON report. It grows when a field
// changes its meaning or goes; new fields may come without that.
const SchemaVersion = 1

// jsonReport is documented at [JSON].
type jsonReport struct {
	Schema       int               `json:"schema"`
	Setup        jsonSetup         `json:"setup"`
	Started      time.Time         `json:"started"`
	DurationMS   float64           `json:"duration_ms"`
	Interrupted  bool              `json:"interrupted"`
	Failure      string            `json:"failure"`
	Rows         []jsonRow         `json:"rows"`
	ErrorSamples map[string]string `json:"error_samples"`
	Check        jsonCheck         `json:"check"`
	WatchCheck   jsonWatchCheck    `json:"watch_check"`
}

type jsonSetup struct {
	Members        int     `json:"members"`
	CallersPerKind int     `json:"callers_per_kind"`
	PauseMS        float64 `json:"pause_ms"`
	CallTimeoutMS  float64 `json:"call_timeout_ms"`
	FaultHeldMS    float64 `json:"fault_held_ms"`
	LeaseTTLMS     float64 `json:"lease_ttl_ms"`
	Seed           uint64  `json:"seed"`
}

type jsonRow struct {
	Name    string       `json:"name"`
	StartMS float64      `json:"start_ms"`
	EndMS   float64      `json:"end_ms"`
	FaultMS float64      `json:"fault_ms"`
	HealMS  float64      `json:"heal_ms"`
	Events  []jsonEvent  `json:"events"`
	Leaders []jsonLeader `json:"leaders"`
	Calls   []jsonCalls  `json:"calls"`
	Watches jsonWatches  `json:"watches"`
	Leases  jsonLeases   `json:"leases"`
}

type jsonLeader struct {
	AtMS     float64      `json:"at_ms"`
	Leader   string       `json:"leader"`
	Reporter string       `json:"reporter"`
	Resumed  [6]jsonAfter `json:"resumed"`
}

type jsonAfter struct {
	Callers int     `json:"callers"`
	LastMS  float64 `json:"last_ms"`
}

// ComparisonJSON writes a comparison for programs: one indented object and a newline. Its
// "clients" have "id", "label", "name", "description" and "report", which is as [JSON]
// writes it; "interrupted" tells whether the comparison was ended early.
func ComparisonJSON(w io.Writer, c Comparison) error {
	type client struct {
		ID          string     `json:"id"`
		Label       string     `json:"label"`
		Name        string     `json:"name"`
		Description string     `json:"description"`
		Report      jsonReport `json:"report"`
	}
	clients := make([]client, 0, len(c.Runs))
	for _, run := range c.Runs {
		clients = append(clients, client{run.ID, run.Label, run.Name, run.Description, jsonReportOf(run.Report)})
	}
	return encode(w, struct {
		Interrupted bool     `json:"interrupted"`
		Clients     []client `json:"clients"`
	}{c.Interrupted, clients})
}

type jsonEvent struct {
	AtMS float64 `json:"at_ms"`
	Text string  `json:"text"`
}

type jsonCalls struct {
	Kind               string           `json:"kind"`
	Completed          int64            `json:"completed"`
	Held               int64            `json:"completed_under_fault"`
	Errors             int64            `json:"errors"`
	Unknown            int64            `json:"unknown"`
	LongestGapMS       float64          `json:"longest_gap_ms"`
	P50MS              float64          `json:"p50_ms"`
	P99MS              float64          `json:"p99_ms"`
	MaxMS              float64          `json:"max_ms"`
	MaxRevisionsBehind int64            `json:"max_revisions_behind"`
	ErrorCodes         map[string]int64 `json:"error_codes"`
}

type jsonCheck struct {
	OK                  bool                  `json:"ok"`
	WritesAudited       bool                  `json:"writes_audited"`
	AuditRevision       int64                 `json:"audit_revision"`
	AcknowledgedWrites  int64                 `json:"acknowledged_writes"`
	RefusedWrites       int64                 `json:"refused_writes"`
	UnknownWrites       int64                 `json:"unknown_writes"`
	UnknownApplied      int64                 `json:"unknown_applied"`
	LinearizableAnswers int64                 `json:"linearizable_answers"`
	LeaseLooks          int64                 `json:"lease_looks"`
	SerializableReads   int64                 `json:"serializable_reads"`
	MaxRevisionsBehind  int64                 `json:"max_revisions_behind"`
	ViolationCounts     map[check.Problem]int `json:"violation_counts"`
	Violations          []jsonViolation       `json:"violations"`
}

type jsonViolation struct {
	Problem  check.Problem `json:"problem"`
	Message  string        `json:"message"`
	Evidence []string      `json:"evidence"`
}

// JSON writes the report for programs: one indented object and a newline. Names
// that end in _ms are milliseconds with three decimals, and moments (at, start,
// end) count from "started". Every field is always present, if only as 0, "", []
// or {}.
//
//	schema                        SchemaVersion
//	setup                         what was run:
//	  members, seed               of the cluster; of the choice of members and keys
//	  callers_per_kind, pause_ms  callers of each kind, and the pause between their calls
//	                              and how many watches and leases there were
//	  call_timeout_ms             deadline of each call
//	  fault_held_ms               how long each fault was held
//	  lease_ttl_ms                time to live of each lease
//	started                       when the load began, RFC 3339 in UTC
//	duration_ms                   of the load
//	interrupted                   whether the run was ended early on request
//	failure                       why the run could not go on, or ""
//	rows                          in the order in which they happened:
//	  name                        "healthy" or the fault
//	  start_ms, end_ms            when
//	  fault_ms, heal_ms           when its injection and its healing began; 0 without a fault
//	  events                      what was done: at_ms, text
//	  leaders                     reports of new leaders: at_ms, leader, reporter, resumed:
//	                              callers who went on, and when the last of them had, counted
//	                              from the report: new gets, new puts, their events, and the
//	                              gets, puts and watches of the load
//	  calls                       one object for each kind of call:
//	    kind                      linearizable_get, serializable_get, put, txn
//	    completed                 calls that were answered
//	    completed_under_fault     calls that were answered while the fault was held
//	    errors                    calls that failed, certainly without effect
//	    unknown                   writes that may or may not have been executed
//	    longest_gap_ms            longest time in the row without a completed call
//	    p50_ms, p99_ms, max_ms    how long calls took, failed ones included; 0 without calls
//	    max_revisions_behind      how stale a serializable_get was at most
//	    error_codes               code → number, of errors and unknown
//	  watches                     all watches together:
//	    delivered                 events that readers took
//	    delay_p50_ms, delay_p99_ms, delay_max_ms
//	                              from the acknowledgement of the write, or from its
//	                              first delivery to any watch if the outcome was unknown;
//	                              0 without events
//	    longest_silence_ms        longest time in which a watch delivered nothing although
//	                              an event was undelivered
//	    lost                      events that were never delivered
//	    ended                     watches that ended by themselves
//	    error_codes               code → number, of ended
//	  leases                      all leases together:
//	    kept                      held in the row, and did not expire in it
//	    expired                   lost by their keepers
//	    renewals                  keepalives that were answered
//	    smallest_margin_ms        least time left, by what the client claimed, when a renewal
//	                              arrived; 0 without renewals
//	    failures                  attempts to get a lease that came to nothing
//	    error_codes               code → number, of expired and failures
//	error_samples                 code → the first error text seen with it; codes of watches
//	                              and leases have "watch " and "lease " before them
//	check                         what the checker found:
//	  ok                          no violation among what was checked
//	  writes_audited              whether the writes were read back, at audit_revision
//	  acknowledged_writes, refused_writes, unknown_writes
//	                              writes by their outcome for the caller
//	  unknown_applied             unknown writes that turned out to be applied
//	  linearizable_answers        answers that were checked
//	  lease_looks                 reads of the keys of leases, which must be there as long as
//	                              the client claims that the lease lives
//	  serializable_reads          answers that may be old, max_revisions_behind at most
//	  violation_counts            problem → number
//	  violations                  at most ten of each problem: problem, message, evidence
//	                              (a list of texts)
//
//	watch_check                   what the check of the watches found:
//	  ok                          no violation among what was checked
//	  skipped                     why there was no check although there were watches, or ""
//	  through_revision            revision up to which they were checked
//	  watches, events             that were checked
//	  violation_counts            promise → number
//	  violations                  at most ten of each promise: promise, message, evidence
//
// The problems are the values of [check.Problem] and [LeaseEndedEarly], the promises
// those of [watchcheck.Promise].
func JSON(w io.Writer, r Report) error { return encode(w, jsonReportOf(r)) }

func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func jsonReportOf(r Report) jsonReport {
	out := jsonReport{
		Schema: SchemaVersion,
		Setup: jsonSetup{
			Members: r.Setup.Members, CallersPerKind: r.Setup.Callers, PauseMS: ms(r.Setup.Pause),
			CallTimeoutMS: ms(r.Setup.CallTimeout), FaultHeldMS: ms(r.Setup.Hold), LeaseTTLMS: ms(r.Setup.LeaseTTL),
			Seed: r.Setup.Seed,
		},
		Started: r.Started.UTC(), DurationMS: ms(r.Duration),
		Interrupted: r.Interrupted, Failure: r.Failure,
		Rows:         make([]jsonRow, 0, len(r.Rows)),
		ErrorSamples: orEmpty(r.ErrorSamples),
		Check:        jsonVerdict(r),
		WatchCheck:   jsonWatchVerdict(r.Watches),
	}
	for _, row := range r.Rows {
		out.Rows = append(out.Rows, jsonOf(row))
	}
	return out
}

func jsonOf(row measure.Row) jsonRow {
	out := jsonRow{
		Name: row.Name, StartMS: ms(row.Start), EndMS: ms(row.End), FaultMS: ms(row.Fault.From), HealMS: ms(row.Fault.To),
		Events: make([]jsonEvent, 0, len(row.Notes)), Leaders: make([]jsonLeader, 0, len(row.Moments)),
	}
	for _, m := range row.Moments {
		leader := jsonLeader{AtMS: ms(m.At), Leader: m.Leader, Reporter: m.Reporter}
		for i, r := range []measure.Resumption{m.NewGets, m.NewPuts, m.NewEvents, m.Gets, m.Puts, m.Watches} {
			leader.Resumed[i] = jsonAfter{r.Callers, ms(r.Last)}
		}
		out.Leaders = append(out.Leaders, leader)
	}
	for _, n := range row.Notes {
		out.Events = append(out.Events, jsonEvent{AtMS: ms(n.At), Text: n.Text})
	}
	for _, k := range history.Kinds() {
		s := row.Kinds[k]
		out.Calls = append(out.Calls, jsonCalls{
			Kind: k.ID(), Completed: s.Completed, Held: s.Held, Errors: s.Errors, Unknown: s.Unknown,
			LongestGapMS: ms(s.LongestGap), P50MS: ms(s.P50), P99MS: ms(s.P99), MaxMS: ms(s.Max),
			MaxRevisionsBehind: s.MaxBehind, ErrorCodes: orEmpty(s.Codes),
		})
	}
	out.Watches, out.Leases = jsonWatchesOf(row.Watches), jsonLeasesOf(row.Leases)
	return out
}

func jsonVerdict(r Report) jsonCheck {
	v := r.Verdict
	out := jsonCheck{
		OK: v.OK(), WritesAudited: v.Audited, AuditRevision: v.AuditRevision,
		AcknowledgedWrites: v.AcknowledgedWrites, RefusedWrites: v.RefusedWrites,
		UnknownWrites: v.UnknownWrites, UnknownApplied: v.UnknownApplied,
		LinearizableAnswers: v.LinearizableAnswers, LeaseLooks: r.LeaseLooks, SerializableReads: v.SerializableReads,
		MaxRevisionsBehind: v.MaxBehind, ViolationCounts: orEmpty(v.Counts),
		Violations: make([]jsonViolation, 0, len(v.Violations)),
	}
	for _, violation := range v.Violations {
		out.Violations = append(out.Violations, jsonViolation{
			Problem: violation.Promise, Message: violation.Message, Evidence: append([]string{}, violation.Evidence...),
		})
	}
	return out
}

// ms converts to milliseconds, to the microsecond.
func ms(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}

func orEmpty[M ~map[K]V, K comparable, V any](m M) M {
	if m == nil {
		return M{}
	}
	return m
}
