package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/internal/words"
	"github.com/quorate/quorate/lab/robustness/callcheck"
)

const (
	// pageWidth is the width in characters that the output keeps to.
	pageWidth = 100
	// nameWidth bounds the name of a row.
	nameWidth = 16
	// sampleWidth bounds the text of an error: three lines of the page.
	sampleWidth = 240
)

// table is lines of cells. Columns are as wide as their widest cell; the first left ones are flush left, the others right.
type table struct {
	left  int
	lines [][]string
}

// add adds a line; nil is an empty cell, and numbers have a comma between thousands.
func (t *table) add(cells ...any) {
	line := make([]string, len(cells))
	for i, cell := range cells {
		switch cell := cell.(type) {
		case int64:
			line[i] = words.Count(cell)
		case nil:
		default:
			line[i] = fmt.Sprint(cell)
		}
	}
	t.lines = append(t.lines, line)
}

func (t *table) String() string {
	widths := make([]int, len(t.lines[0]))
	for _, line := range t.lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, line := range t.lines {
		cells := make([]string, len(line))
		for i, cell := range line {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if cells[i] = space + cell; i < t.left {
				cells[i] = cell + space
			}
		}
		b.WriteString(strings.TrimRight(strings.Join(cells, "  "), " ") + "\n")
	}
	return b.String()
}

// Table writes the report for people, at most 100 characters wide.
func Table(w io.Writer, r Report) error {
	var b strings.Builder
	writeCalls(&b, r)
	writeWatches(&b, r)
	b.WriteByte('\n')
	writeSentence(&b, r.Setup.sentence())
	writeErrors(&b, r)
	b.WriteByte('\n')
	writeVerdict(&b, r)
	_, err := io.WriteString(w, b.String())
	return err
}

func (s Setup) sentence() string {
	return fmt.Sprintf("The cluster had %d members, the load %d callers of each kind, %v between calls and a deadline of %v, "+
		"and as many watches, and leases with a TTL of %v. Faults were held for %v. The seed was %d.",
		s.Members, s.Callers, time.Duration(s.Pause), time.Duration(s.CallTimeout), time.Duration(s.LeaseTTL), time.Duration(s.Hold), s.Seed)
}

// writeSentence writes a text in lines of the page's width.
func writeSentence(b *strings.Builder, s string) { b.WriteString(words.Wrap(s, pageWidth, "") + "\n") }

// writeCalls writes the table of the calls, and what its words mean.
func writeCalls(b *strings.Builder, r Report) {
	t := table{left: 2}
	t.add("FAULT", "CALL", "COMPLETED", "ERRORS", "UNKNOWN", "LONGEST GAP", "P50", "P99")
	for _, row := range r.Rows {
		name := words.Clip(row.Name, nameWidth)
		for _, c := range row.Calls {
			some := c.ended() > 0
			t.add(name, c.Kind, c.Completed, c.Errors, c.Unknown, c.LongestGap, orDash(some, c.P50), orDash(some, c.P99))
			name = ""
		}
	}
	b.WriteString(t.String() + "\n")
	writeSentence(b, "A call counts in the row in which it was sent. COMPLETED calls were answered; ERRORS certainly had no effect; "+
		"UNKNOWN are writes that may or may not have been executed.")
	writeSentence(b, "LONGEST GAP is the longest time in the row without a completed call of that kind. P50 and P99 are the times in "+
		"which half of the calls, and 99 in 100, had ended, those that failed included. A caller waits for the end of "+
		"one call before it makes the next, so a stall holds up few calls: it shows in the gap, not in P99.")
}

// orDash returns a duration, or a dash if there is none.
func orDash(some bool, d Duration) string {
	if !some {
		return "-"
	}
	return d.String()
}

// writeWatches writes the table of the watches and leases, and what its words mean.
func writeWatches(b *strings.Builder, r Report) {
	t := table{left: 1}
	t.add(nil, "WATCHES:", "DELAY", nil, nil, nil, nil, nil, "LEASES:", nil, nil)
	t.add("FAULT", "DELIVERED", "P50", "P99", "MAX", "SILENCE", "LOST", "ENDED", "KEPT", "EXPIRED", "MARGIN")
	for _, row := range r.Rows {
		w, l := row.Watches, row.Leases
		some := w.Delivered > 0
		t.add(words.Clip(row.Name, nameWidth), w.Delivered, orDash(some, w.DelayP50), orDash(some, w.DelayP99), orDash(some, w.DelayMax),
			w.LongestSilence, w.Lost, w.Ended, l.Kept, l.Expired, orDash(l.Renewals > 0, l.SmallestMargin))
	}
	b.WriteString("\n" + t.String() + "\n")
	writeSentence(b, "An event counts in the row in which its write was sent, once for each watch that DELIVERED it. DELAY is the time "+
		"from the acknowledgement of the write, or from its first delivery to any watch if the outcome was unknown, to the "+
		"delivery of the event; 0 if the event was first. SILENCE is the longest time in the row in which a watch delivered nothing "+
		"although it owed an event, whose write had been acknowledged. LOST events were owed and never delivered; ENDED "+
		"watches ended by themselves, and their readers watched again.")
	writeSentence(b, "KEPT leases were held in the row and did not expire in it. MARGIN is the least time that a lease had left when a "+
		"renewal arrived, as the client itself claimed.")
}

// writeErrors lists the codes of the calls that were not completed, of watches that
// ended and leases that expired, the most frequent first, with one text each.
func writeErrors(b *strings.Builder, r Report) {
	totals := map[string]int64{}
	count := func(of string, codes map[string]int64) {
		for code, n := range codes {
			totals[of+code] += n
		}
	}
	for _, row := range r.Rows {
		for _, c := range row.Calls {
			count("", c.Codes)
		}
		count("watch ", row.Watches.Codes)
		count("lease ", row.Leases.Codes)
	}
	if len(totals) == 0 {
		return
	}
	b.WriteString("\nWhat was not completed, ended by itself or expired:\n")
	for _, code := range slices.SortedFunc(maps.Keys(totals), func(x, y string) int {
		return cmp.Or(cmp.Compare(totals[y], totals[x]), cmp.Compare(x, y))
	}) {
		text := code
		if sample := r.ErrorSamples[code]; sample != "" {
			text = fmt.Sprintf("%s, such as: %s", code, words.Clip(sample, sampleWidth))
		}
		fmt.Fprintf(b, "  %7s  %s\n", words.Count(totals[code]), words.Wrap(text, pageWidth-11, "           "))
	}
}

// writeVerdict writes what was checked, what was not, and the result.
func writeVerdict(b *strings.Builder, r Report) {
	switch {
	case r.Failure != "":
		writeSentence(b, "The run could not go on: "+r.Failure+".")
	case r.Interrupted:
		writeSentence(b, "The run was ended early.")
	}
	for _, s := range append(callSentences(r.Calls), r.Watches.sentences()...) {
		writeSentence(b, s)
	}
	if r.OK() {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", strings.ToUpper(words.Plural(int64(r.Violations()), "violation")))
	writeViolations(b, "", r.Calls.Violations)
	writeViolations(b, "watch, ", r.Watches.Violations)
	if hidden := r.Violations() - len(r.Calls.Violations) - len(r.Watches.Violations); hidden > 0 {
		fmt.Fprintf(b, "and %s more.\n", words.Count(int64(hidden)))
	}
}

func writeViolations(b *strings.Builder, of string, violations []tally.Violation) {
	for _, v := range violations {
		b.WriteString(words.Wrap(fmt.Sprintf("- %s%s: %s", of, v.Promise, v.Message), pageWidth, "  ") + "\n")
		for _, e := range v.Evidence {
			b.WriteString("    " + words.Wrap(e, pageWidth-4, "      ") + "\n")
		}
	}
}

// callSentences says what was checked of the calls and leases, and the result.
func callSentences(v callcheck.Verdict) []string {
	found := func(p callcheck.Problem) string { return words.Count(int64(v.Counts[p])) }
	reads := words.Count(v.LinearizableAnswers) + " linearizable answers (gets, puts, txns): "
	if v.Counts[callcheck.WentBackwards] == 0 {
		reads += "none went backwards."
	} else {
		reads += found(callcheck.WentBackwards) + " went backwards."
	}
	writes := words.Count(v.AcknowledgedWrites) + " acknowledged writes: "
	switch {
	case !v.Audited:
		writes = "The acknowledged writes were NOT checked, so this run says nothing about them."
	case v.Counts[callcheck.LostWrite] == 0 && v.Counts[callcheck.AppliedTwice] == 0:
		writes += "all are there at the end, each applied once."
	default:
		writes += found(callcheck.LostWrite) + " missing, " + found(callcheck.AppliedTwice) + " applied twice."
	}
	out := []string{reads, writes}
	if v.Audited && v.UnknownWrites > 0 {
		out = append(out, fmt.Sprintf("%s with an unknown outcome: %s turned out to be applied.",
			words.Plural(v.UnknownWrites, "write"), words.Count(v.UnknownApplied)))
	}
	out = append(out, fmt.Sprintf("Serializable gets were at most %s behind, which such reads may be.", words.Plural(v.MaxBehind, "revision")))
	if v.LeaseLooks > 0 {
		gone := "none"
		if v.Counts[callcheck.LeaseEndedEarly] > 0 {
			gone = found(callcheck.LeaseEndedEarly)
		}
		out = append(out, fmt.Sprintf("%s at keys of leases: %s was gone while the client claimed that the lease lives.",
			words.Plural(v.LeaseLooks, "look"), gone))
	}
	return out
}

// sentences says what was checked of the watches, and the result.
func (c WatchCheck) sentences() []string {
	if c.Skipped != "" {
		return []string{"The watches were NOT checked: " + c.Skipped + "."}
	}
	if c.Watches == 0 {
		return nil
	}
	what := fmt.Sprintf("%s of %s watches, up to revision %d: ", words.Plural(c.Events, "event"), words.Count(c.Watches), c.Through)
	if c.OK() {
		return []string{what + "none was lost, repeated, out of order or untrue."}
	}
	var broken []string
	for _, promise := range slices.Sorted(maps.Keys(c.Counts)) {
		broken = append(broken, fmt.Sprintf("%s: %d", promise, c.Counts[promise]))
	}
	return []string{what + "promises were broken (" + strings.Join(broken, ", ") + ")."}
}
