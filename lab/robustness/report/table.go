package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/lab/internal/words"
	"github.com/quorate/quorate/lab/robustness/callcheck"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/measure"
)

// pageWidth is the width in characters that the final table keeps to.
const pageWidth = 100

// sampleWidth bounds the text of an error: three lines of the page.
const sampleWidth = 240

const tableLine = "%-16s  %-16s  %9s  %7s  %7s  %11s  %9s  %9s"

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
		s.Members, s.Callers, s.Pause, s.CallTimeout, s.LeaseTTL, s.Hold, s.Seed)
}

// writeCalls writes the table of the calls, and what its words mean.
func writeCalls(b *strings.Builder, r Report) {
	writeLine(b, fmt.Sprintf(tableLine, "FAULT", "CALL", "COMPLETED", "ERRORS", "UNKNOWN", "LONGEST GAP", "P50", "P99"))
	for _, row := range r.Rows {
		writeRow(b, row)
	}
	b.WriteByte('\n')
	for _, s := range []string{
		"A call counts in the row in which it was sent. COMPLETED calls were answered; ERRORS certainly had no effect; " +
			"UNKNOWN are writes that may or may not have been executed.",
		"LONGEST GAP is the longest time in the row without a completed call of that kind. P50 and P99 are the times in " +
			"which half of the calls, and 99 in 100, had ended, those that failed included. A caller waits for the end of " +
			"one call before it makes the next, so a stall holds up few calls: it shows in the gap, not in P99.",
	} {
		writeSentence(b, s)
	}
}

func writeLine(b *strings.Builder, line string) {
	b.WriteString(strings.TrimRight(line, " "))
	b.WriteByte('\n')
}

// writeSentence writes a text in lines of the page's width.
func writeSentence(b *strings.Builder, s string) { writeLine(b, words.Wrap(s, pageWidth, "")) }

func writeRow(b *strings.Builder, row measure.Row) {
	name := words.Clip(row.Name, 16)
	for _, k := range history.Kinds() {
		s := row.Kinds[k]
		p50, p99 := "-", "-"
		if s.Calls() > 0 {
			p50, p99 = words.Duration(s.P50), words.Duration(s.P99)
		}
		writeLine(b, fmt.Sprintf(tableLine, name, k,
			words.Count(s.Completed), words.Count(s.Errors), words.Count(s.Unknown), words.Duration(s.LongestGap), p50, p99))
		name = ""
	}
}

// writeErrors lists the codes of the calls that were not completed, of watches that
// ended and leases that expired, the most frequent first, with one text each.
func writeErrors(b *strings.Builder, r Report) {
	totals := map[string]int64{}
	for _, row := range r.Rows {
		for _, s := range row.Kinds {
			addCodes(totals, "", s.Codes)
		}
		addCodes(totals, "watch ", row.Watches.Codes)
		addCodes(totals, "lease ", row.Leases.Codes)
	}
	if len(totals) == 0 {
		return
	}
	codes := slices.SortedFunc(maps.Keys(totals), func(x, y string) int {
		return cmp.Or(cmp.Compare(totals[y], totals[x]), cmp.Compare(x, y))
	})
	b.WriteString("\nWhat was not completed, ended by itself or expired:\n")
	for _, code := range codes {
		text := code
		if sample := r.ErrorSamples[code]; sample != "" {
			text = fmt.Sprintf("%s, such as: %s", code, words.Clip(sample, sampleWidth))
		}
		writeLine(b, fmt.Sprintf("  %7s  %s", words.Count(totals[code]), words.Wrap(text, pageWidth-11, "           ")))
	}
}

func addCodes(totals map[string]int64, prefix string, codes map[string]int64) {
	for code, n := range codes {
		totals[prefix+code] += n
	}
}

func writeVerdict(b *strings.Builder, r Report) {
	for _, s := range slices.Concat(verdictSentences(r), watchSentences(r), leaseSentences(r)) {
		writeSentence(b, s)
	}
	if r.OK() {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", strings.ToUpper(words.Plural(int64(r.Violations()), "violation")))
	for _, violation := range r.Verdict.Violations {
		writeViolation(b, string(violation.Promise), violation.Message, violation.Evidence)
	}
	for _, violation := range r.Watches.Verdict.Violations {
		writeViolation(b, "watch, "+string(violation.Promise), violation.Message, violation.Evidence)
	}
	if hidden := r.Violations() - len(r.Verdict.Violations) - len(r.Watches.Verdict.Violations); hidden > 0 {
		writeLine(b, fmt.Sprintf("and %s more.", words.Count(int64(hidden))))
	}
}

func writeViolation(b *strings.Builder, what, message string, evidence []string) {
	writeLine(b, words.Wrap(fmt.Sprintf("- %s: %s", what, message), pageWidth, "  "))
	for _, e := range evidence {
		writeLine(b, "    "+words.Wrap(e, pageWidth-4, "      "))
	}
}

// verdictSentences says what was checked, what was not, and the result.
func verdictSentences(r Report) []string {
	v := r.Verdict
	var out []string
	switch {
	case r.Failure != "":
		out = append(out, "The run could not go on: "+r.Failure+".")
	case r.Interrupted:
		out = append(out, "The run was ended early.")
	}
	reads := words.Count(v.LinearizableAnswers) + " linearizable answers (gets, puts, txns)"
	if v.Counts[callcheck.WentBackwards] == 0 {
		out = append(out, reads+": none went backwards.")
	} else {
		out = append(out, fmt.Sprintf("%s: %s went backwards.", reads, words.Count(int64(v.Counts[callcheck.WentBackwards]))))
	}
	switch writes := words.Count(v.AcknowledgedWrites) + " acknowledged writes"; {
	case !v.Audited:
		out = append(out, "The acknowledged writes were NOT checked, so this run says nothing about them.")
	case v.Counts[callcheck.LostWrite] == 0 && v.Counts[callcheck.AppliedTwice] == 0:
		out = append(out, writes+": all are there at the end, each applied once.")
	default:
		out = append(out, fmt.Sprintf("%s: %s missing, %s applied twice.", writes,
			words.Count(int64(v.Counts[callcheck.LostWrite])), words.Count(int64(v.Counts[callcheck.AppliedTwice]))))
	}
	if v.Audited && v.UnknownWrites > 0 {
		out = append(out, fmt.Sprintf("%s with an unknown outcome: %s turned out to be applied.",
			words.Plural(v.UnknownWrites, "write"), words.Count(v.UnknownApplied)))
	}
	return append(out, fmt.Sprintf("Serializable gets were at most %s behind, which such reads may be.",
		words.Plural(v.MaxBehind, "revision")))
}
