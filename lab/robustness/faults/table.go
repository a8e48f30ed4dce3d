package faults

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/quorate/quorate/lab/internal/stats"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

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
