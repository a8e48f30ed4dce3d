package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/internal/words"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/measure"
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

// ClientRun is what one client's run came to.
type ClientRun struct {
	Client
	Report Report
}

// Comparison is how several clients got through the same faults.
type Comparison struct {
	// Runs of the clients, in order, one round after the other.
	Runs []ClientRun
	// Interrupted reports whether the comparison was ended early on request; the last
	// client then has not met every fault, and others may be missing.
	Interrupted bool
}

const (
	figureLine = "%-16s  %-8s  %5s %5s  %7s  %7s  %6s  %7s  %7s  %6s  %6s"
	gapLine    = "%-16s  %-8s  %7s  %7s  %7s  %7s  %7s  %7s  %7s  %7s"
	leaderLine = "%-16s  %-8s  %-6s  %7s  %7s  %7s  %7s  %7s  %7s  %7s"
)

// ComparisonTable writes a comparison for people, at most 100 characters wide.
func ComparisonTable(w io.Writer, c Comparison) error {
	var b strings.Builder
	writeFigures(&b, c)
	writeGaps(&b, c)
	writeLeaders(&b, c)
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

// met is how one run got through a fault.
type met struct {
	report Report
	row    measure.Row
}

// eachFault calls show for each fault and client that met it, with all rounds; fault
// is empty but for the first client.
func (c Comparison) eachFault(show func(fault string, client Client, rounds []met)) {
	faults := 0
	for _, run := range c.Runs {
		faults = max(faults, len(run.Report.Rows)-1)
	}
	clients := c.clients()
	for i := range faults {
		first := true
		for k := range clients {
			var rounds []met
			for n := k; n < len(c.Runs); n += clients {
				if rows := c.Runs[n].Report.Rows; i+1 < len(rows) && rows[i+1].Fault.From > 0 { // the run may have ended before
					rounds = append(rounds, met{c.Runs[n].Report, rows[i+1]})
				}
			}
			if len(rounds) == 0 {
				continue
			}
			name := words.Clip(rounds[0].row.Name, 16)
			if !first {
				name = ""
			}
			show(name, c.Runs[k].Client, rounds)
			first = false
		}
	}
}

// median returns the median of a figure over the rounds, the greater of the middle two.
func median[T cmp.Ordered](rounds []met, figure func(met) T) T {
	values := make([]T, len(rounds))
	for i, m := range rounds {
		values[i] = figure(m)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// gap and slowest return figures of a kind of call.
func gap(kind history.Kind) func(met) time.Duration {
	return func(m met) time.Duration { return m.row.Kinds[kind].LongestGap }
}

func slowest(kinds ...history.Kind) func(met) time.Duration {
	return func(m met) (longest time.Duration) {
		for _, k := range kinds {
			longest = max(longest, m.row.Kinds[k].Max)
		}
		return longest
	}
}

// total returns the sum of a figure over the kinds of call.
func total(figure func(measure.Stats) int64) func(met) int64 {
	return func(m met) (sum int64) {
		for _, s := range m.row.Kinds {
			sum += figure(s)
		}
		return sum
	}
}

// writeFigures writes the table of what was met, and what its words mean.
func writeFigures(b *strings.Builder, c Comparison) {
	writeLine(b, fmt.Sprintf(figureLine, "", "", "GETS", "PUTS", "LONGEST", "SLOWEST", "", "", "SLOWEST", "LOST,", "LEASES"))
	writeLine(b, fmt.Sprintf(figureLine, "FAULT", "CLIENT", "DONE", "DONE", "GAP", "CALL", "FAILED", "UNKNOWN", "WATCH", "AGAIN", "LOST"))
	c.eachFault(func(fault string, client Client, rounds []met) {
		watches := func(figure func(measure.WatchStats) int64) int64 {
			return median(rounds, func(m met) int64 { return figure(m.row.Watches) })
		}
		writeLine(b, fmt.Sprintf(figureLine, fault, words.Clip(client.Label, 8),
			completed(rounds, history.LinearizableGet), completed(rounds, history.Put),
			words.Duration(median(rounds, gap(history.LinearizableGet))), words.Duration(median(rounds, slowest(history.Kinds()...))),
			words.Count(median(rounds, total(func(s measure.Stats) int64 { return s.Errors }))),
			words.Count(median(rounds, total(func(s measure.Stats) int64 { return s.Unknown }))),
			words.Duration(median(rounds, func(m met) time.Duration { return m.row.Watches.DelayMax })),
			fmt.Sprintf("%d, %d", watches(func(w measure.WatchStats) int64 { return w.Undelivered }),
				watches(func(w measure.WatchStats) int64 { return w.Repeated })),
			words.Count(median(rounds, func(m met) int64 { return m.row.Leases.Expired }))))
	})
	b.WriteByte('\n')
	writeSentence(b, "GETS and PUTS are the linearizable gets and the puts that were completed in a second while the fault was "+
		"held, in percent of what the same client completed before the first fault. LONGEST GAP is the longest time without a "+
		"completed linearizable get of any caller, SLOWEST CALL the longest that a caller of any kind waited. UNKNOWN are writes "+
		"that may or may not have been executed. SLOWEST WATCH is the longest from the acknowledgement of a write to the "+
		"delivery of its event; LOST events were never delivered, AGAIN more than once or behind later ones. LEASES LOST "+
		"expired, or their keepers were told so. Each figure is the median of the rounds.")
}

// servedAgain returns the time from the end of a fault until all callers were served, or
// until the end of the row if some were not.
func servedAgain(m met) time.Duration {
	if callers := m.report.Setup.Callers; m.row.HealedGets.Callers < callers || m.row.HealedPuts.Callers < callers {
		return m.row.End - m.row.Fault.To
	}
	return max(m.row.HealedGets.Last, m.row.HealedPuts.Last)
}

// writeGaps writes the gaps of each kind of call, and how soon all callers went on after the fault.
func writeGaps(b *strings.Builder, c Comparison) {
	b.WriteByte('\n')
	writeLine(b, fmt.Sprintf(gapLine, "", "", "GAP OF", "LOCAL", "GAP OF", "GAP OF", "SLOWEST", "SLOWEST", "OUTSIDE", "SERVED"))
	writeLine(b, fmt.Sprintf(gapLine, "FAULT", "CLIENT", "GETS", "GETS", "PUTS", "TXNS", "GET", "WRITE", "EVENT", "AGAIN"))
	c.eachFault(func(fault string, client Client, rounds []met) {
		line := make([]any, 0, 6+len(history.Kinds()))
		line = append(line, fault, words.Clip(client.Label, 8))
		for _, k := range history.Kinds() {
			line = append(line, words.Duration(median(rounds, gap(k))))
		}
		line = append(line, words.Duration(median(rounds, slowest(history.LinearizableGet))),
			words.Duration(median(rounds, slowest(history.Put, history.Txn))),
			words.Duration(median(rounds, func(m met) time.Duration { return m.row.OutsideDelay })), words.Duration(median(rounds, servedAgain)))
		writeLine(b, fmt.Sprintf(gapLine, line...))
	})
	b.WriteByte('\n')
	writeSentence(b, "LOCAL GETS are serializable. OUTSIDE EVENT is the longest from a write that the fault cannot hinder, because it passes no link, "+
		"to its delivery by a watch of the client. SERVED AGAIN is the time from the end of the fault until every caller of gets "+
		"and of puts had one call completed, or until the end of the row.")
}

// completed returns how many calls were completed in a second while a fault was held, in
// percent of those of the healthy row.
func completed(rounds []met, kind history.Kind) string {
	percent := median(rounds, func(m met) float64 {
		healthy := m.report.Rows[0]
		usual := float64(healthy.Kinds[kind].Completed) / (healthy.End - healthy.Start).Seconds()
		held := float64(m.row.Kinds[kind].Held) / (m.row.Fault.To - m.row.Fault.From).Seconds()
		return 100 * held / usual
	})
	if math.IsNaN(percent) || math.IsInf(percent, 0) {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", percent)
}

// writeLeaders writes what happened after new leaders were reported.
func writeLeaders(b *strings.Builder, c Comparison) {
	head := false
	c.eachFault(func(fault string, client Client, rounds []met) {
		label := words.Clip(client.Label, 8)
		for _, round := range rounds {
			for _, m := range round.row.Moments {
				if !head {
					b.WriteByte('\n')
					writeLine(b, fmt.Sprintf(leaderLine, "", "", "NEW", "", "NEW", "NEW", "THEIR", "GETS", "PUTS", "WATCHES"))
					writeLine(b, fmt.Sprintf(leaderLine, "FAULT", "CLIENT", "LEADER", "AFTER", "GETS", "PUTS", "EVENTS", "RESUME", "RESUME", "RESUME"))
					head = true
				}
				callers := round.report.Setup.Callers
				writeLine(b, fmt.Sprintf(leaderLine, fault, label, words.Clip(m.Leader, 6), words.Duration(m.At-round.row.Fault.From),
					last(m.NewGets, callers), last(m.NewPuts, callers), last(m.NewEvents, callers),
					last(m.Gets, callers), last(m.Puts, callers), last(m.Watches, callers)))
				fault, label = "", ""
			}
		}
	})
	if head {
		b.WriteByte('\n')
		writeSentence(b, "A healthy member reported the LEADER so long AFTER the injection of the fault; the other times count from "+
			"there. NEW GETS and PUTS were invoked at that moment by callers who had nothing under way. The load's callers, "+
			"who may have been waiting for the end of a call to the old leader, RESUME when that has ended. Each is the time until "+
			"every caller, and every watch, had one call completed, or one event delivered.")
	}
}

// last tells how soon the last of all callers went on: "30 ms", "4 of 6".
func last(r measure.Resumption, callers int) string {
	if r.Callers < callers {
		return fmt.Sprintf("%d of %d", r.Callers, callers)
	}
	return words.Duration(r.Last)
}
