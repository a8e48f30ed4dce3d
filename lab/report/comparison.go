package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/internal/words"
	"github.com/quorate/quorate/lab/measure"
)

// Client says which client a run used.
type Client struct {
	// ID names it for programs, Label in a word for tables, and Name in full.
	ID, Label, Name string
	// Description says how it was configured.
	Description string
}

// ClientRun is what one client's run came to.
type ClientRun struct {
	Client
	Report Report
}

// Comparison is how several clients got through the same faults.
type Comparison struct {
	// Runs of the clients, in order.
	Runs []ClientRun
	// Interrupted reports whether the comparison was ended early on request; the last
	// client then has not met every fault, and others may be missing.
	Interrupted bool
}

const (
	figureLine = "%-16s  %-8s  %5s %5s  %7s  %7s  %6s  %7s  %7s  %6s  %6s"
	leaderLine = "%-16s  %-8s  %-6s  %7s  %7s  %7s  %7s  %7s  %7s  %7s"
)

// ComparisonTable writes a comparison for people, at most 100 characters wide.
func ComparisonTable(w io.Writer, c Comparison) error {
	var b strings.Builder
	writeFigures(&b, c)
	writeLeaders(&b, c)
	b.WriteByte('\n')
	if len(c.Runs) > 0 {
		writeSentence(&b, "Each client had a fresh cluster. "+c.Runs[0].Report.Setup.sentence())
	}
	for _, run := range c.Runs {
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

// eachFault calls show with the rows of each fault, one for each client that met it; fault
// is empty but for the first.
func (c Comparison) eachFault(show func(fault string, run ClientRun, row measure.Row)) {
	faults := 0
	for _, run := range c.Runs {
		faults = max(faults, len(run.Report.Rows)-1)
	}
	for i := range faults {
		first := true
		for _, run := range c.Runs {
			if rows := run.Report.Rows; i+1 < len(rows) && rows[i+1].Fault.From > 0 { // the run may have ended before
				name := words.Clip(rows[i+1].Name, 16)
				if !first {
					name = ""
				}
				show(name, run, rows[i+1])
				first = false
			}
		}
	}
}

// writeFigures writes the table of what was met, and what its words mean.
func writeFigures(b *strings.Builder, c Comparison) {
	writeLine(b, fmt.Sprintf(figureLine, "", "", "GETS", "PUTS", "LONGEST", "SLOWEST", "", "", "SLOWEST", "LOST,", "LEASES"))
	writeLine(b, fmt.Sprintf(figureLine, "FAULT", "CLIENT", "DONE", "DONE", "GAP", "CALL", "FAILED", "UNKNOWN", "WATCH", "AGAIN", "LOST"))
	c.eachFault(func(fault string, run ClientRun, row measure.Row) {
		var slowest time.Duration
		var failed, unknown int64
		for _, s := range row.Kinds {
			slowest, failed, unknown = max(slowest, s.Max), failed+s.Errors, unknown+s.Unknown
		}
		writeLine(b, fmt.Sprintf(figureLine, fault, words.Clip(run.Label, 8),
			completed(run.Report.Rows[0], row, history.LinearizableGet), completed(run.Report.Rows[0], row, history.Put),
			words.Duration(row.Kinds[history.LinearizableGet].LongestGap), words.Duration(slowest), words.Count(failed), words.Count(unknown),
			words.Duration(row.Watches.DelayMax), fmt.Sprintf("%d, %d", row.Watches.Undelivered, row.Watches.Repeated),
			words.Count(row.Leases.Expired)))
	})
	b.WriteByte('\n')
	writeSentence(b, "GETS and PUTS are the linearizable gets and the puts that were completed in a second while the fault was "+
		"held, in percent of what the same client completed before the first fault. LONGEST GAP is the longest time without a "+
		"completed linearizable get of any caller, SLOWEST CALL the longest that a caller of any kind waited. UNKNOWN are writes "+
		"that may or may not have been executed. SLOWEST WATCH is the longest from the acknowledgement of a write to the "+
		"delivery of its event; LOST events were never delivered, AGAIN more than once or behind later ones. LEASES LOST "+
		"expired, or their keepers were told so.")
}

// completed returns how many calls were completed in a second while a fault was held, in
// percent of those of the healthy row.
func completed(healthy, row measure.Row, kind history.Kind) string {
	usual := float64(healthy.Kinds[kind].Completed) / (healthy.End - healthy.Start).Seconds()
	held := float64(row.Kinds[kind].Held) / (row.Fault.To - row.Fault.From).Seconds()
	if percent := 100 * held / usual; !math.IsNaN(percent) && !math.IsInf(percent, 0) {
		return fmt.Sprintf("%.0f %%", percent)
	}
	return "-"
}

// writeLeaders writes what happened after new leaders were reported.
func writeLeaders(b *strings.Builder, c Comparison) {
	head := false
	c.eachFault(func(fault string, run ClientRun, row measure.Row) {
		label := words.Clip(run.Label, 8)
		for _, m := range row.Moments {
			if !head {
				b.WriteByte('\n')
				writeLine(b, fmt.Sprintf(leaderLine, "", "", "NEW", "", "NEW", "NEW", "THEIR", "GETS", "PUTS", "WATCHES"))
				writeLine(b, fmt.Sprintf(leaderLine, "FAULT", "CLIENT", "LEADER", "AFTER", "GETS", "PUTS", "EVENTS", "RESUME", "RESUME", "RESUME"))
				head = true
			}
			callers := run.Report.Setup.Callers
			writeLine(b, fmt.Sprintf(leaderLine, fault, label, words.Clip(m.Leader, 6), words.Duration(m.At-row.Fault.From),
				last(m.NewGets, callers), last(m.NewPuts, callers), last(m.NewEvents, callers),
				last(m.Gets, callers), last(m.Puts, callers), last(m.Watches, callers)))
			fault, label = "", ""
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
