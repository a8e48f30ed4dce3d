package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
)

// writeTable writes lines of cells in columns that are flush right.
func writeTable(b *strings.Builder, lines [][]any) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, line := range lines {
		for _, cell := range line {
			if n, is := cell.(int64); is {
				cell = humanize.Comma(n)
			}
			_, _ = fmt.Fprintf(w, "%v\t", cell) // to b, which takes everything
		}
		_, _ = fmt.Fprintln(w)
	}
	_ = w.Flush() // to b
}

// Table writes the report for people.
func Table(w io.Writer, r Report) error {
	var b strings.Builder
	writeCalls(&b, r)
	writeWatches(&b, r)
	b.WriteString(r.Setup.text())
	writeErrors(&b, r)
	b.WriteByte('\n')
	writeVerdict(&b, r)
	_, err := io.WriteString(w, b.String())
	return err
}

func (s Setup) text() string {
	return fmt.Sprintf(`The cluster had %d members, the load %d callers of each kind, %v between calls and a deadline of %v,
and as many watches, and leases with a TTL of %v. Faults were held for %v. The seed was %d.
`, s.Members, s.Callers, time.Duration(s.Pause), time.Duration(s.CallTimeout), time.Duration(s.LeaseTTL), time.Duration(s.Hold), s.Seed)
}

// writeCalls writes the table of the calls, and what its words mean.
func writeCalls(b *strings.Builder, r Report) {
	lines := [][]any{{"FAULT", "CALL", "COMPLETED", "ERRORS", "UNKNOWN", "LONGEST GAP", "P50", "P99"}}
	for _, row := range r.Rows {
		name := row.Name
		for _, c := range row.Calls {
			lines = append(lines, []any{name, c.Kind, c.Completed, c.Errors, c.Unknown, c.LongestGap, orDash(c.P50), orDash(c.P99)})
			name = ""
		}
	}
	writeTable(b, lines)
	b.WriteString(`
A call counts in the row in which it was sent. COMPLETED calls were answered; ERRORS certainly had
no effect; UNKNOWN are writes that may or may not have been executed.
LONGEST GAP is the longest time in the row without a completed call of that kind. P50 and P99 are
the times in which half of the calls, and 99 in 100, had ended, those that failed included. A caller
waits for the end of one call before it makes the next, so a stall holds up few calls: it shows in
the gap, not in P99.

`)
}

// orDash returns a quantile, or a dash if there is none.
func orDash(d Duration) string {
	if d == 0 {
		return "-"
	}
	return d.String()
}

// writeWatches writes the table of the watches and leases, and what its words mean.
func writeWatches(b *strings.Builder, r Report) {
	lines := make([][]any, 0, 1+len(r.Rows))
	lines = append(lines, []any{"FAULT", "EVENTS", "DELAY", "OUTSIDE DELAY", "LEASES LOST"})
	for _, row := range r.Rows {
		lines = append(lines, []any{row.Name, row.Events, row.EventDelay, row.OutsideDelay, row.LeasesLost})
	}
	writeTable(b, lines)
	b.WriteString(`
An event counts in the row in which its write was sent, once for each watch that delivered it. DELAY
is the longest time from the acknowledgement of a write to the delivery of the event. OUTSIDE DELAY
is that of writes that no fault hinders, because they pass no link. LEASES LOST expired, or their
keepers were told so.

`)
}

// writeErrors lists the codes of failed calls, ended watches and expired leases, the most frequent first, with one text each.
func writeErrors(b *strings.Builder, r Report) {
	if len(r.Errors) == 0 {
		return
	}
	b.WriteString("\nWhat was not completed, ended by itself or expired:\n")
	for _, code := range slices.SortedFunc(maps.Keys(r.Errors), func(x, y string) int {
		return cmp.Or(cmp.Compare(r.Errors[y].Count, r.Errors[x].Count), cmp.Compare(x, y))
	}) {
		fmt.Fprintf(b, "  %7s  %s", humanize.Comma(r.Errors[code].Count), code)
		if sample := r.Errors[code].Sample; sample != "" {
			b.WriteString(", such as: " + sample)
		}
		b.WriteByte('\n')
	}
}

// writeVerdict writes what was checked, and the result.
func writeVerdict(b *strings.Builder, r Report) {
	switch {
	case r.Failure != "":
		fmt.Fprintf(b, "The run could not go on: %s.\n", r.Failure)
	case r.Interrupted:
		b.WriteString("The run was ended early.\n")
	}
	if r.Checked == nil {
		b.WriteString("nothing was checked\n")
		return
	}
	fmt.Fprintf(b, "%s%-21s%v", r.Checked, "verdict", r.Verdict)
}
