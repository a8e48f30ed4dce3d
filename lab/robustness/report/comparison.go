package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/quorate/quorate/lab/internal/stats"
	"github.com/quorate/quorate/lab/robustness/history"
)

// Client says which client a run used.
type Client struct {
	// ID names it for programs, Label in a word for tables, and Name in full.
	ID    string `json:"id"`
	Label string `json:"label"`
	Name  string `json:"name"`
	// Description says how it was configured.
	Description string `json:"description"`
}

// ClientRun is the result of one client's run.
type ClientRun struct {
	Client
	Report Report `json:"report"`
}

// Comparison is the result of several clients under the same faults.
type Comparison struct {
	// Interrupted reports whether the comparison was ended early on request; the last
	// client then has not met every fault, and others may be missing.
	Interrupted bool `json:"interrupted"`
	// Runs of the clients, in order, one round after the other.
	Runs []ClientRun `json:"clients"`
}

// column is a column of a table: a figure, of which it has the median over the rounds, and its text.
type column struct {
	head   string
	figure func(met) float64
	text   func(float64) string
}

// met is the row of a fault in one run, with the first row of that run.
type met struct{ healthy, row *Row }

// median returns the median of a column's figure over the rounds.
func (c column) median(rounds []met) string {
	figures := make([]float64, len(rounds))
	for i, m := range rounds {
		figures[i] = c.figure(m)
	}
	return c.text(stats.Of(figures).Median)
}

// served are the columns of the first table, and gaps those of the second.
var (
	served = []column{
		{"GETS", done(history.LinearizableGet), percent},
		{"PUTS", done(history.Put), percent},
		{"GAP OF GETS", gap(history.LinearizableGet), duration},
		{"SLOWEST CALL", slowest(history.Kinds()...), duration},
		{"FAILED", total(func(c Calls) int64 { return c.Errors }), count},
		{"UNKNOWN", total(func(c Calls) int64 { return c.Unknown }), count},
		{"LEASES LOST", func(m met) float64 { return float64(m.row.LeasesLost) }, count},
	}
	gaps = []column{
		{"LOCAL GETS", gap(history.SerializableGet), duration},
		{"PUTS", gap(history.Put), duration},
		{"TXNS", gap(history.Txn), duration},
		{"SLOWEST WRITE", slowest(history.Put, history.Txn), duration},
		{"EVENT", func(m met) float64 { return float64(m.row.EventDelay) }, duration},
		{"OUTSIDE EVENT", func(m met) float64 { return float64(m.row.OutsideDelay) }, duration},
	}
)

func duration(f float64) string { return Duration(f).String() }

func count(f float64) string { return humanize.Comma(int64(f)) }

func percent(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", f)
}

// done returns how many calls were completed in a second while a fault was held, in percent of those of the healthy row.
func done(kind history.Kind) func(met) float64 {
	return func(m met) float64 {
		usual := float64(m.healthy.Calls[kind].Completed) / float64(m.healthy.End-m.healthy.Start)
		return 100 * float64(m.row.Calls[kind].Held) / float64(m.row.Heal-m.row.Fault) / usual
	}
}

func gap(kind history.Kind) func(met) float64 {
	return func(m met) float64 { return float64(m.row.Calls[kind].LongestGap) }
}

func slowest(kinds ...history.Kind) func(met) float64 {
	return func(m met) (longest float64) {
		for _, k := range kinds {
			longest = max(longest, float64(m.row.Calls[k].Max))
		}
		return longest
	}
}

// total returns the sum of a figure over the kinds of call.
func total(of func(Calls) int64) func(met) float64 {
	return func(m met) (sum float64) {
		for _, c := range m.row.Calls {
			sum += float64(of(c))
		}
		return sum
	}
}

// Table writes a comparison for people. A single run is one of one client.
func Table(w io.Writer, c Comparison) error {
	var b strings.Builder
	c.writeTable(&b, served)
	b.WriteString(`
GETS and PUTS are the linearizable gets and the puts that were completed in a second while the fault
was held, in percent of what the same client completed before the first fault. A GAP is the longest
time without a completed call of any caller, SLOWEST CALL the longest that a caller of any kind
waited. FAILED calls certainly had no effect, UNKNOWN are writes that may or may not have been
executed; both count where they were sent. LEASES LOST expired, or their keepers were told so. Each
figure is the median of the rounds.

`)
	c.writeTable(&b, gaps)
	b.WriteString(`
LOCAL GETS, which are serializable, PUTS and TXNS are their gaps. EVENT is the longest from the
acknowledgement of a write to its delivery by a watch of the client, OUTSIDE EVENT that of a write
that the fault cannot hinder, because it passes no link.

`)
	if len(c.Runs) > 0 {
		b.WriteString("Each client had a fresh cluster.\n" + c.Runs[0].Report.Setup.text())
	}
	for _, run := range c.Runs[:c.clients()] {
		fmt.Fprintf(&b, "%s is: %s, %s.\n", run.Label, run.Name, run.Description)
	}
	for _, run := range c.Runs {
		b.WriteString("\n" + run.Name + ":\n")
		writeErrors(&b, run.Report)
		writeVerdict(&b, run.Report)
	}
	if c.Interrupted {
		b.WriteString("\nIt was ended early.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// clients returns how many clients there are: as many as the first round has runs.
func (c Comparison) clients() int {
	for i, run := range c.Runs {
		if i > 0 && run.ID == c.Runs[0].ID {
			return i
		}
	}
	return len(c.Runs)
}

// writeTable writes a line for each row and client that had it, in columns that are flush right.
func (c Comparison) writeTable(b *strings.Builder, columns []column) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := []string{"FAULT", "CLIENT"}
	rows := 0
	for _, column := range columns {
		line = append(line, column.head)
	}
	for _, run := range c.Runs {
		rows = max(rows, len(run.Report.Rows))
	}
	_, _ = fmt.Fprintln(w, strings.Join(line, "\t")+"\t") // to b, which takes everything
	for row := range rows {
		for k := range c.clients() {
			rounds := c.rounds(k, row)
			if len(rounds) == 0 {
				continue
			}
			line = append(line[:0], rounds[0].row.Name, c.Runs[k].Label)
			for _, column := range columns {
				line = append(line, column.median(rounds))
			}
			_, _ = fmt.Fprintln(w, strings.Join(line, "\t")+"\t")
		}
	}
	_ = w.Flush()
}

// rounds returns how a client got through a row in each round. A run may have ended before.
func (c Comparison) rounds(client, row int) (all []met) {
	for n := client; n < len(c.Runs); n += c.clients() {
		if r := c.Runs[n].Report; row < len(r.Rows) && (row == 0 || r.Rows[row].Fault > 0) {
			all = append(all, met{&r.Rows[0], &r.Rows[row]})
		}
	}
	return all
}
