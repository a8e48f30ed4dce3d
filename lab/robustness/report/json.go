package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"time"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/measure"
)

// SchemaVersion is the "schema" field of the JSON report. It grows when a field
// changes its meaning or goes; new fields may come without that.
const SchemaVersion = 1

// jsonReport is documented at [JSON].
type jsonReport struct {
	Schema       int               `json:"schema"`
	Setup        Setup             `json:"setup"`
	Started      time.Time         `json:"started"`
	Duration     time.Duration     `json:"duration_ms"`
	Interrupted  bool              `json:"interrupted"`
	Failure      string            `json:"failure"`
	Rows         []jsonRow         `json:"rows"`
	ErrorSamples map[string]string `json:"error_samples"`
	Check        jsonCheck         `json:"check"`
	WatchCheck   jsonWatchCheck    `json:"watch_check"`
}

type jsonRow struct {
	Name    string             `json:"name"`
	Start   time.Duration      `json:"start_ms"`
	End     time.Duration      `json:"end_ms"`
	Fault   time.Duration      `json:"fault_ms"`
	Heal    time.Duration      `json:"heal_ms"`
	Events  []measure.Note     `json:"events"`
	Leaders []jsonLeader       `json:"leaders"`
	Calls   []jsonCalls        `json:"calls"`
	Watches measure.WatchStats `json:"watches"`
	Leases  measure.LeaseStats `json:"leases"`
}

type jsonLeader struct {
	At       time.Duration         `json:"at_ms"`
	Leader   string                `json:"leader"`
	Reporter string                `json:"reporter"`
	Resumed  [6]measure.Resumption `json:"resumed"`
}

type jsonCalls struct {
	Kind string `json:"kind"`
	measure.Stats
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
	ViolationCounts     map[tally.Promise]int `json:"violation_counts"`
	Violations          []jsonProblem         `json:"violations"`
}

type jsonWatchCheck struct {
	OK              bool                  `json:"ok"`
	Skipped         string                `json:"skipped"`
	ThroughRevision int64                 `json:"through_revision"`
	Watches         int64                 `json:"watches"`
	Events          int64                 `json:"events"`
	ViolationCounts map[tally.Promise]int `json:"violation_counts"`
	Violations      []tally.Violation     `json:"violations"`
}

// jsonProblem is a violation whose promise is called a problem.
type jsonProblem struct {
	Problem  tally.Promise `json:"problem"`
	Message  string        `json:"message"`
	Evidence []string      `json:"evidence"`
}

// ComparisonJSON writes a comparison for programs: one indented object and a newline. Its
// "clients" have "id", "label", "name", "description" and "report", which is as [JSON]
// writes it; "interrupted" tells whether the comparison was ended early.
func ComparisonJSON(w io.Writer, c Comparison) error {
	type client struct {
		Client
		Report jsonReport `json:"report"`
	}
	clients := make([]client, 0, len(c.Runs))
	for _, run := range c.Runs {
		clients = append(clients, client{run.Client, jsonReportOf(run.Report)})
	}
	return encode(w, struct {
		Interrupted bool     `json:"interrupted"`
		Clients     []client `json:"clients"`
	}{c.Interrupted, clients})
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
//	  writes_audited              whether calls were compared with the history of the store, up to audit_revision
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
// The problems are the values of [callcheck.Problem] and [LeaseEndedEarly], the promises
// those of [watchcheck.Promise].
func JSON(w io.Writer, r Report) error { return encode(w, jsonReportOf(r)) }

func jsonReportOf(r Report) jsonReport {
	v, c := r.Verdict, r.Watches
	out := jsonReport{
		Schema: SchemaVersion, Setup: r.Setup, Started: r.Started.UTC(), Duration: r.Duration,
		Interrupted: r.Interrupted, Failure: r.Failure, ErrorSamples: r.ErrorSamples,
		Check: jsonCheck{
			OK: v.OK(), WritesAudited: v.Audited, AuditRevision: v.AuditRevision,
			AcknowledgedWrites: v.AcknowledgedWrites, RefusedWrites: v.RefusedWrites,
			UnknownWrites: v.UnknownWrites, UnknownApplied: v.UnknownApplied,
			LinearizableAnswers: v.LinearizableAnswers, LeaseLooks: r.LeaseLooks, SerializableReads: v.SerializableReads,
			MaxRevisionsBehind: v.MaxBehind, ViolationCounts: v.Counts,
		},
		WatchCheck: jsonWatchCheck{
			OK: c.Verdict.OK(), Skipped: c.Skipped, ThroughRevision: c.Through, Watches: c.Verdict.Watches, Events: c.Verdict.Events,
			ViolationCounts: c.Verdict.Counts, Violations: c.Verdict.Violations,
		},
	}
	for _, p := range v.Violations {
		out.Check.Violations = append(out.Check.Violations, jsonProblem{p.Promise, p.Message, p.Evidence})
	}
	for _, row := range r.Rows {
		out.Rows = append(out.Rows, jsonOf(row))
	}
	return out
}

func jsonOf(row measure.Row) jsonRow {
	out := jsonRow{
		Name: row.Name, Start: row.Start, End: row.End, Fault: row.Fault.From, Heal: row.Fault.To,
		Events: row.Notes, Watches: row.Watches, Leases: row.Leases,
	}
	for _, m := range row.Moments {
		out.Leaders = append(out.Leaders, jsonLeader{
			m.At, m.Leader, m.Reporter, [6]measure.Resumption{m.NewGets, m.NewPuts, m.NewEvents, m.Gets, m.Puts, m.Watches},
		})
	}
	for _, k := range history.Kinds() {
		out.Calls = append(out.Calls, jsonCalls{k.ID(), row.Kinds[k]})
	}
	return out
}

func encode(w io.Writer, v any) error {
	var compact, indented bytes.Buffer
	if err := writeJSON(&compact, reflect.ValueOf(v)); err != nil {
		return err
	}
	if err := json.Indent(&indented, compact.Bytes(), "", "  "); err != nil {
		return err
	}
	_, err := w.Write(append(indented.Bytes(), '\n'))
	return err
}

// writeJSON writes a value as encoding/json does, but durations in milliseconds, nil slices and maps as empty ones, and of
// structs the fields that have a name in JSON.
func writeJSON(b *bytes.Buffer, v reflect.Value) error {
	switch x := v.Interface().(type) {
	case time.Duration:
		return writeText(b, math.Round(float64(x)/float64(time.Microsecond))/1000)
	case time.Time:
		return writeText(b, x)
	}
	switch v.Kind() {
	case reflect.Struct:
		b.WriteByte('{')
		if err := writeFields(b, v); err != nil {
			return err
		}
		b.WriteByte('}')
		return nil
	case reflect.Slice, reflect.Array:
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, v.Index(i)); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	case reflect.Map:
		if v.IsNil() {
			b.WriteString("{}")
			return nil
		}
	default:
	}
	return writeText(b, v.Interface())
}

// writeFields writes the fields of a struct, those of embedded structs among them.
func writeFields(b *bytes.Buffer, v reflect.Value) error {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, err := field.Tag.Get("json"), error(nil)
		switch {
		case field.Anonymous:
			err = writeFields(b, v.Field(i))
		case name != "":
			if b.Bytes()[b.Len()-1] != '{' {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, "%q:", name)
			err = writeJSON(b, v.Field(i))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeText writes what encoding/json makes of a value, without a newline and with < and > as they are.
func writeText(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	b.Truncate(b.Len() - 1)
	return err
}
