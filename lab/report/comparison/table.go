package comparison

import (
	"fmt"
	"io"
	"strings"

	"github.com/quorate/quorate/lab/internal/words"
)

// tableWidth is the width in characters that the table keeps to.
const tableWidth = 100

// sampleWidth bounds the text of a violation.
const sampleWidth = 240

const (
	figureLine = "%-16s  %-8s  %5s %5s  %7s  %7s  %6s  %7s  %7s  %6s  %6s"
	leaderLine = "%-16s  %-8s  %-6s  %7s  %7s  %7s  %7s  %7s  %7s  %7s"
)

// Table writes the comparison for people, at most 100 characters wide.
func Table(w io.Writer, d Document) error {
	var b strings.Builder
	writeFigures(&b, d)
	writeLeaders(&b, d)
	b.WriteByte('\n')
	writeLine(&b, words.Wrap(fmt.Sprintf("Each client had a fresh cluster of %d members, %d callers of each kind with %s between calls and "+
		"a deadline of %s, and as many watches, and leases with a TTL of %s. Faults were held for %s. The seed was %d.",
		d.Setup.Members, d.Setup.CallersPerKind, configured(d.Setup.PauseMS), configured(d.Setup.CallTimeoutMS),
		configured(d.Setup.LeaseTTLMS), configured(d.Setup.FaultHeldMS), d.Setup.Seed), tableWidth, ""))
	for _, c := range d.Clients {
		writeLine(&b, words.Wrap(fmt.Sprintf("%s is: %s, %s.", c.Label, c.Name, c.Description), tableWidth, ""))
	}
	writeVerdicts(&b, d)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeLine(b *strings.Builder, line string) {
	b.WriteString(strings.TrimRight(line, " "))
	b.WriteByte('\n')
}

// writeFigures writes the table of what was met, and what its words mean.
func writeFigures(b *strings.Builder, d Document) {
	writeLine(b, fmt.Sprintf(figureLine, "", "", "GETS", "PUTS", "LONGEST", "SLOWEST", "", "", "SLOWEST", "LOST,", "LEASES"))
	writeLine(b, fmt.Sprintf(figureLine, "FAULT", "CLIENT", "DONE", "DONE", "GAP", "CALL", "FAILED", "UNKNOWN", "WATCH", "AGAIN", "LOST"))
	for i, f := range d.Faults {
		name := words.Clip(f.Name, 16)
		for _, c := range d.Clients {
			r := c.run(i)
			if r == nil {
				continue
			}
			fig := r.Figures
			writeLine(b, fmt.Sprintf(figureLine, name, words.Clip(c.Label, 8),
				percent(fig.Calls[get].CompletedPercent), percent(fig.Calls[put].CompletedPercent),
				duration(fig.Calls[get].LongestGapMS), duration(fig.slowest()), words.Count(fig.failed()), words.Count(fig.unknown()),
				duration(fig.SlowestWatchMS), fmt.Sprintf("%d, %d", fig.Lost, fig.Repeated), words.Count(fig.LeasesExpired)))
			name = ""
		}
	}
	b.WriteByte('\n')
	writeLine(b, words.Wrap("GETS and PUTS are the linearizable gets and the puts that were completed in a second while the fault was "+
		"held, in percent of what the same client completed before the first fault. LONGEST GAP is the longest time without a "+
		"completed linearizable get of any caller, SLOWEST CALL the longest that a caller of any kind waited. UNKNOWN are writes "+
		"that may or may not have been executed. SLOWEST WATCH is the longest from the acknowledgement of a write to the "+
		"delivery of its event; LOST events were never delivered, AGAIN more than once or behind later ones. LEASES LOST "+
		"expired, or their keepers were told so.", tableWidth, ""))
}

// writeLeaders writes what happened after new leaders were reported.
func writeLeaders(b *strings.Builder, d Document) {
	head := false
	for i, f := range d.Faults {
		name := words.Clip(f.Name, 16)
		for _, c := range d.Clients {
			r := c.run(i)
			if r == nil {
				continue
			}
			label := words.Clip(c.Label, 8)
			for _, m := range r.Moments {
				if m.Leader == "" {
					continue
				}
				if !head {
					b.WriteByte('\n')
					writeLine(b, fmt.Sprintf(leaderLine, "", "", "NEW", "", "NEW", "NEW", "THEIR", "GETS", "PUTS", "WATCHES"))
					writeLine(b, fmt.Sprintf(leaderLine, "FAULT", "CLIENT", "LEADER", "AFTER", "GETS", "PUTS", "EVENTS", "RESUME", "RESUME", "RESUME"))
					head = true
				}
				writeLine(b, leaderRow(name, label, m, d.Setup.CallersPerKind))
				name, label = "", ""
			}
		}
	}
	if head {
		b.WriteByte('\n')
		writeLine(b, words.Wrap("A healthy member reported the LEADER so long AFTER the injection of the fault; the other times count from "+
			"there. NEW GETS and PUTS were invoked at that moment by callers who had nothing under way. The load's callers, "+
			"who may have been waiting for the end of a call to the old leader, RESUME when that has ended. Each is the time until "+
			"every caller, and every watch, had one call completed, or one event delivered.", tableWidth, ""))
	}
}

func leaderRow(name, label string, m Moment, callers int) string {
	return fmt.Sprintf(leaderLine, name, label, words.Clip(m.Leader, 6), duration(m.AtMS),
		m.NewGets.last(callers), m.NewPuts.last(callers), m.NewEvents.last(callers),
		m.Gets.last(callers), m.Puts.last(callers), m.Watches.last(callers))
}

// writeVerdicts says what the checks found, and which runs did not come to their end.
func writeVerdicts(b *strings.Builder, d Document) {
	b.WriteByte('\n')
	for _, c := range d.Clients {
		if c.Failure != "" {
			writeLine(b, words.Wrap(fmt.Sprintf("%s: the run could not go on: %s.", c.Name, c.Failure), tableWidth, ""))
		}
		if c.Violations == 0 && c.Failure == "" {
			writeLine(b, words.Wrap(c.Name+": the checks of calls, leases and watches found nothing wrong.", tableWidth, ""))
		}
		if c.Violations == 0 {
			continue
		}
		writeLine(b, words.Wrap(fmt.Sprintf("%s: the checks found %s broken promises.", c.Name, words.Count(int64(c.Violations))), tableWidth, ""))
		for _, s := range c.Samples {
			writeLine(b, "  "+strings.ReplaceAll(words.Wrap(words.Clip(s, sampleWidth), tableWidth-4, ""), "\n", "\n    "))
		}
	}
	if d.Interrupted {
		writeLine(b, "The comparison was ended early.")
	}
}
