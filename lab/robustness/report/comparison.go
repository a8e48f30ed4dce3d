package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/quorate/quorate/lab/internal/words"
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

// Comparison is how several clients got through the same faults.
type Comparison struct {
	// Interrupted reports whether the comparison was ended early on request; the last
	// client then has not met every fault, and others may be missing.
	Interrupted bool `json:"interrupted"`
	// Runs of the clients, in order, one round after the other.
	Runs []ClientRun `json:"clients"`
}

// column is a column of a table: its two lines of heading, a figure, of which it has the median over the rounds, and its text.
type column struct {
	head   [2]string
	figure figure
	text   func(float64) string
}

// met is how one run got through a fault, with the first row of that run.
type met struct {
	Report
	healthy, row *Row
}

// figure is a figure of a row.
type figure func(met) float64

// median returns the median of a figure over the rounds, the greater of the middle two.
func median(figure figure, rounds []met) float64 {
	figures := make([]float64, len(rounds))
	for i, m := range rounds {
		figures[i] = figure(m)
	}
	slices.Sort(figures)
	return figures[len(figures)/2]
}

// served are the columns of the first table, and gaps those of the second.
var (
	served = []column{
		{[2]string{"GETS", "DONE"}, done(history.LinearizableGet), percent},
		{[2]string{"PUTS", "DONE"}, done(history.Put), percent},
		{[2]string{"LONGEST", "GAP"}, gap(history.LinearizableGet), duration},
		{[2]string{"SLOWEST", "CALL"}, slowest(history.Kinds()...), duration},
		{[2]string{"", "FAILED"}, total(func(c Calls) int64 { return c.Errors }), count},
		{[2]string{"", "UNKNOWN"}, total(func(c Calls) int64 { return c.Unknown }), count},
		{[2]string{"SLOWEST", "WATCH"}, func(m met) float64 { return float64(m.row.Watches.DelayMax) }, duration},
		{[2]string{"", "LOST"}, func(m met) float64 { return float64(m.row.Watches.Lost) }, count},
		{[2]string{"", "AGAIN"}, func(m met) float64 { return float64(m.row.Watches.Repeated) }, count},
		{[2]string{"LEASES", "LOST"}, func(m met) float64 { return float64(m.row.Leases.Expired) }, count},
	}
	gaps = []column{
		{[2]string{"GAP OF", "GETS"}, gap(history.LinearizableGet), duration},
		{[2]string{"LOCAL", "GETS"}, gap(history.SerializableGet), duration},
		{[2]string{"GAP OF", "PUTS"}, gap(history.Put), duration},
		{[2]string{"GAP OF", "TXNS"}, gap(history.Txn), duration},
		{[2]string{"SLOWEST", "GET"}, slowest(history.LinearizableGet), duration},
		{[2]string{"SLOWEST", "WRITE"}, slowest(history.Put, history.Txn), duration},
		{[2]string{"OUTSIDE", "EVENT"}, func(m met) float64 { return float64(m.row.OutsideDelay) }, duration},
	}
)

func duration(f float64) string { return Duration(f).String() }

func count(f float64) string { return words.Count(int64(f)) }

func percent(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", f)
}

// done returns how many calls were completed in a second while a fault was held, in percent of those of the healthy row.
func done(kind history.Kind) figure {
	return func(m met) float64 {
		usual := float64(m.healthy.Calls[kind].Completed) / float64(m.healthy.End-m.healthy.Start)
		return 100 * float64(m.row.Calls[kind].Held) / float64(m.row.Heal-m.row.Fault) / usual
	}
}

func gap(kind history.Kind) figure {
	return func(m met) float64 { return float64(m.row.Calls[kind].LongestGap) }
}

func slowest(kinds ...history.Kind) figure {
	return func(m met) (longest float64) {
		for _, k := range kinds {
			longest = max(longest, float64(m.row.Calls[k].Max))
		}
		return longest
	}
}

// total returns the sum of a figure over the kinds of call.
func total(of func(Calls) int64) figure {
	return func(m met) (sum float64) {
		for _, c := range m.row.Calls {
			sum += float64(of(c))
		}
		return sum
	}
}

// ComparisonTable writes a comparison for people, at most 100 characters wide.
func ComparisonTable(w io.Writer, c Comparison) error {
	var b strings.Builder
	b.WriteString(c.table(served) + "\n")
	writeSentence(&b, "GETS and PUTS are the linearizable gets and the puts that were completed in a second while the fault was "+
		"held, in percent of what the same client completed before the first fault. LONGEST GAP is the longest time without a "+
		"completed linearizable get of any caller, SLOWEST CALL the longest that a caller of any kind waited. UNKNOWN are writes "+
		"that may or may not have been executed. SLOWEST WATCH is the longest from the acknowledgement of a write to the "+
		"delivery of its event; LOST events were never delivered, AGAIN more than once or behind later ones. LEASES LOST "+
		"expired, or their keepers were told so. Each figure is the median of the rounds.")
	b.WriteString("\n" + c.table(gaps) + "\n")
	writeSentence(&b, "LOCAL GETS are serializable. OUTSIDE EVENT is the longest from a write that the fault cannot hinder, because it passes no link, "+
		"to its delivery by a watch of the client.")
	c.writeLeaders(&b)
	b.WriteByte('\n')
	if len(c.Runs) > 0 {
		writeSentence(&b, "Each client had a fresh cluster. "+c.Runs[0].Report.Setup.sentence())
	}
	for _, run := range c.Runs[:c.clients()] {
		writeSentence(&b, fmt.Sprintf("%s is: %s, %s.", run.Label, run.Name, run.Description))
	}
	for _, run := range c.Runs {
		b.WriteString("\n" + run.Name + ":\n")
		writeVerdict(&b, run.Report)
	}
	if c.Interrupted {
		b.WriteString("\nThe comparison was ended early.\n")
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

// eachFault calls show for each fault and client that met it, with all rounds; fault is empty but for the first client.
func (c Comparison) eachFault(show func(fault, client string, rounds []met)) {
	rows := 0
	for _, run := range c.Runs {
		rows = max(rows, len(run.Report.Rows))
	}
	for row := 1; row < rows; row++ {
		named := false
		for k := range c.clients() {
			var rounds []met
			for n := k; n < len(c.Runs); n += c.clients() {
				if r := c.Runs[n].Report; row < len(r.Rows) && r.Rows[row].Fault > 0 { // the run may have ended before
					rounds = append(rounds, met{r, &r.Rows[0], &r.Rows[row]})
				}
			}
			if len(rounds) == 0 {
				continue
			}
			fault := ""
			if !named {
				fault = words.Clip(rounds[0].row.Name, nameWidth)
			}
			named = true
			show(fault, words.Clip(c.Runs[k].Label, 8), rounds)
		}
	}
}

// table returns a table with a line for each fault and client.
func (c Comparison) table(columns []column) string {
	t := table{left: 2}
	for i, heading := range [][]any{{nil, nil}, {"FAULT", "CLIENT"}} {
		for _, column := range columns {
			heading = append(heading, column.head[i])
		}
		t.add(heading...)
	}
	c.eachFault(func(fault, client string, rounds []met) {
		line := make([]any, 0, 2+len(columns))
		line = append(line, fault, client)
		for _, column := range columns {
			line = append(line, column.text(median(column.figure, rounds)))
		}
		t.add(line...)
	})
	return t.String()
}

// writeLeaders writes what happened after new leaders were reported.
func (c Comparison) writeLeaders(b *strings.Builder) {
	t := table{left: 3}
	t.add(nil, nil, "NEW", nil, "NEW", "NEW", "THEIR")
	t.add("FAULT", "CLIENT", "LEADER", "AFTER", "GETS", "PUTS", "EVENTS")
	head := len(t.lines)
	c.eachFault(func(fault, client string, rounds []met) {
		for _, m := range rounds {
			for _, leader := range m.row.Leaders {
				line := []any{fault, client, words.Clip(leader.Leader, 6), leader.At - m.row.Fault}
				for _, resumed := range leader.Resumed {
					line = append(line, resumed.text(m.Setup.Callers))
				}
				t.add(line...)
				fault, client = "", ""
			}
		}
	})
	if len(t.lines) == head {
		return
	}
	b.WriteString("\n" + t.String() + "\n")
	writeSentence(b, "A healthy member reported the LEADER so long AFTER the injection of the fault; the other times count from "+
		"there. NEW GETS and PUTS were invoked at that moment by callers who had nothing under way. Each is the time until "+
		"every caller had one call completed, or its event delivered.")
}

// text tells how soon the calls of all callers were completed: "30 ms", "4 of 6".
func (r Resumption) text(callers int) string {
	if r.Callers < callers {
		return fmt.Sprintf("%d of %d", r.Callers, callers)
	}
	return r.Last.String()
}
