package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"go.etcd.io/etcd/api/v3/version"

	"github.com/quorate/quorate/lab/internal/stats"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/official"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// kinds are the kinds of call that a load makes.
var kinds = []model.Kind{model.Get, model.SerializableGet, model.Put, model.Txn}

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

// call is a call that has ended.
type call struct {
	model.Operation
	group group
	// failure is the error that it ended with.
	failure error
}

// measure returns the rows, which must have ended, with their figures. Calls are in the order of their ends.
func measure(rows []Row, calls []call, watches []history.Watch, leases []*lease) []Row {
	for i := range rows {
		row := &rows[i]
		if row.Fault > 0 && row.Heal == 0 {
			row.Heal = row.End // it was not healed
		}
		row.Calls = map[model.Kind]Calls{}
		for _, kind := range kinds {
			row.Calls[kind] = row.measure(kind, calls)
		}
		for _, l := range leases {
			if l.lost > 0 && row.contains(l.lost) {
				row.LeasesLost++
			}
		}
	}
	measureWatches(rows, calls, watches)
	return rows
}

// measure measures the calls of a kind.
func (r *Row) measure(kind model.Kind, calls []call) (c Calls) {
	completed := r.Start // when a call was completed last, or the row began
	for i := range calls {
		call := &calls[i]
		if call.Request.Kind != kind {
			continue
		}
		if end := call.Return; call.Outcome == history.OK && r.contains(end) {
			c.LongestGap = max(c.LongestGap, end-completed)
			completed = end
			if r.Fault > 0 && end >= r.Fault && end < r.Heal {
				c.Held++
			}
		}
		if r.contains(call.Call) {
			c.count(call)
		}
	}
	c.LongestGap = max(c.LongestGap, r.End-completed)
	return c
}

func (c *Calls) count(call *call) {
	switch call.Outcome {
	case history.OK:
		c.Completed++
	case history.Unknown:
		c.Unknown++
	default:
		c.Errors++
	}
	c.Max = max(c.Max, call.Return-call.Call)
}

// measureWatches measures how late events were.
func measureWatches(rows []Row, calls []call, watches []history.Watch) {
	acknowledged := map[string]*call{} // writes by value: no two calls write the same
	for i := range calls {
		if c := &calls[i]; c.Outcome == history.OK && c.Response.Succeeded {
			for _, act := range c.Request.Then {
				if act.Verb == model.Write {
					acknowledged[act.Value] = c
				}
			}
		}
	}
	for _, watch := range watches {
		for _, resp := range watch.Responses {
			for _, e := range resp.Events {
				write := acknowledged[e.Value]
				if write == nil {
					continue
				}
				if i := slices.IndexFunc(rows, func(row Row) bool { return row.contains(write.Call) }); i >= 0 {
					rows[i].EventDelay = max(rows[i].EventDelay, resp.At-write.Return)
				}
			}
		}
	}
}

// Report is the result of a run.
type Report struct {
	Client
	// Setup says what was run, in sentences.
	Setup string
	// Failure says why the run could not go on; empty if it could.
	Failure string
	// Rows in the order in which they happened.
	Rows []Row
	// Outcome has the verdict on calls, watches, and what the client claimed of its leases.
	robustness.Outcome
}

// column is a column of a table: a figure of a row, which may be compared with the healthy one of its run.
type column struct {
	head   string
	figure func(healthy, row *Row) string
}

// served are the columns of the first table, and gaps those of the second.
var (
	served = []column{
		{"GETS", done(model.Get)},
		{"PUTS", done(model.Put)},
		{"GAP OF GETS", gap(model.Get)},
		{"SLOWEST CALL", slowest(kinds...)},
		{"FAILED", total(func(c Calls) int { return c.Errors })},
		{"UNKNOWN", total(func(c Calls) int { return c.Unknown })},
		{"LEASES LOST", func(_, row *Row) string { return humanize.Comma(int64(row.LeasesLost)) }},
	}
	gaps = []column{
		{"LOCAL GETS", gap(model.SerializableGet)},
		{"PUTS", gap(model.Put)},
		{"TXNS", gap(model.Txn)},
		{"SLOWEST WRITE", slowest(model.Put, model.Txn)},
		{"EVENT", func(_, row *Row) string { return duration(row.EventDelay) }},
	}
)

// duration returns three digits: "0.84 ms", "8.4 ms", "123 ms", "1.23 s", "123 s".
func duration(d time.Duration) string {
	if ms := float64(d) / float64(time.Millisecond); ms < 999.5 {
		return stats.Text(ms) + " ms"
	}
	return stats.Text(d.Seconds()) + " s"
}

// done returns how many calls were completed in a second while a fault was held, in percent of those of the healthy row.
func done(kind model.Kind) func(healthy, row *Row) string {
	return func(healthy, row *Row) string {
		usual := float64(healthy.Calls[kind].Completed) / float64(healthy.End-healthy.Start)
		percent := 100 * float64(row.Calls[kind].Held) / float64(row.Heal-row.Fault) / usual
		if math.IsNaN(percent) || math.IsInf(percent, 0) {
			return "-"
		}
		return fmt.Sprintf("%.0f %%", percent)
	}
}

func gap(kind model.Kind) func(healthy, row *Row) string {
	return func(_, row *Row) string { return duration(row.Calls[kind].LongestGap) }
}

func slowest(kinds ...model.Kind) func(healthy, row *Row) string {
	return func(_, row *Row) string {
		var longest time.Duration
		for _, k := range kinds {
			longest = max(longest, row.Calls[k].Max)
		}
		return duration(longest)
	}
}

// total returns the sum of a figure over the kinds of call.
func total(of func(Calls) int) func(healthy, row *Row) string {
	return func(_, row *Row) string {
		sum := 0
		for _, c := range row.Calls {
			sum += of(c)
		}
		return humanize.Comma(int64(sum))
	}
}

// Table writes the runs of some clients under the same faults for people.
func Table(w io.Writer, runs []Report) error {
	var b strings.Builder
	writeTable(&b, runs, served)
	b.WriteString(`
GETS and PUTS are the linearizable gets and the puts that were completed in a second while the fault
was held, in percent of what the same client completed before the first fault. A GAP is the longest
time without a completed call of any caller, SLOWEST CALL the longest that a caller of any kind
waited. FAILED calls certainly had no effect, UNKNOWN are writes that may or may not have been
executed; both count where they were sent. LEASES LOST are those whose keepalive ended.

`)
	writeTable(&b, runs, gaps)
	b.WriteString(`
LOCAL GETS, which are serializable, PUTS and TXNS are their gaps. EVENT is the longest from the
acknowledgement of a write to its delivery by a watch of the client.
`)
	if len(runs) > 0 {
		b.WriteString("Each client had a fresh cluster.\n" + runs[0].Setup)
	}
	for _, run := range runs {
		fmt.Fprintf(&b, "\n%s, %s:\n", run.Label, run.Description)
		switch {
		case run.Failure != "":
			fmt.Fprintf(&b, "The run could not go on: %s.\n", run.Failure)
		case run.Interrupted:
			b.WriteString("The run was ended early.\n")
		}
		b.WriteString(run.String())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTable writes a line for each row and client that had it, in columns that are flush right. A run may have ended before.
func writeTable(b *strings.Builder, runs []Report, columns []column) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := []string{"FAULT", "CLIENT"}
	rows := 0
	for _, column := range columns {
		line = append(line, column.head)
	}
	for _, run := range runs {
		rows = max(rows, len(run.Rows))
	}
	_, _ = fmt.Fprintln(w, strings.Join(line, "\t")+"\t") // to b, which takes everything
	for i := range rows {
		for _, run := range runs {
			if i >= len(run.Rows) || i > 0 && run.Rows[i].Fault == 0 {
				continue
			}
			line = append(line[:0], run.Rows[i].Name, run.Label)
			for _, column := range columns {
				line = append(line, column.figure(&run.Rows[0], &run.Rows[i]))
			}
			_, _ = fmt.Fprintln(w, strings.Join(line, "\t")+"\t")
		}
	}
	_ = w.Flush()
}

// DefaultComparedHold is how long a fault is held by default in a comparison: as long as the default deadline of
// a call, so that a call which does nothing about the fault fails.
const DefaultComparedHold = DefaultCallTimeout

// QuorateID is the ID of Quorate among [Clients].
const QuorateID = "quorate"

// DefaultCompared are the faults of a comparison that names none. With DefaultComparedHold they
// take three clients about seven minutes.
var DefaultCompared = []string{"kill", "stop", "blackhole", "partition", "leader-kill", "leader-partition"}

// Client is a client to compare.
type Client struct {
	// ID names it for programs, and Label in tables.
	ID, Label string
	// Description says how it was configured.
	Description string
	// Connect connects the load to a cluster.
	Connect func(to client.Target) (client.Connection, error)
}

// Clients returns those that are compared by default: the official client as it comes and
// tuned, and Quorate, which is the last.
func Clients() []Client {
	tuned := fmt.Sprintf("keepalive every %.0f s with a timeout of %.0f s, watches with WithRequireLeader",
		official.KeepAliveTime.Seconds(), official.KeepAliveTimeout.Seconds())
	return []Client{
		{"official", "official", "etcd client/v3 " + version.Version + " as it comes, nothing set but endpoints", official.AsItComes},
		{"official-tuned", "tuned", tuned, official.Tuned},
		{QuorateID, "Quorate", "as it comes, nothing set but endpoints", quorate.Connect},
	}
}

// Runner is the type of [Run], which tests replace.
type Runner func(context.Context, Config) (Report, error)

// Compare runs the experiment with one client after the other, each on a fresh cluster with the same faults, load and seed. The
// clients never run at the same time: they would take the machine from each other. The seed makes them draw the same choices;
// which members these hit depends on who was elected, since a fault of a follower chooses among those who do not lead.
//
// The reports are valid, as far as they go, even with an error. The error joins the failures of runs, each with the client's
// label; a run that fails does not end the comparison. The end of ctx does, and is no error. A violation is no error either, see
// [Report.Verdict]. With a wrong configuration there are no reports.
func Compare(ctx context.Context, cfg Config, clients []Client, run Runner) (reports []Report, err error) {
	if cfg, err = cfg.complete(); err != nil {
		return nil, err
	}
	for i, c := range clients {
		_, _ = fmt.Fprintf(cfg.Log, "%s (%d of %d): %s\n", c.Label, i+1, len(clients), c.Description)
		cfg.Connect = c.Connect
		rep, failed := run(ctx, cfg)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", c.Label, failed))
		}
		rep.Client = c
		reports = append(reports, rep)
		if rep.Interrupted || ctx.Err() != nil {
			break
		}
	}
	return reports, err
}
