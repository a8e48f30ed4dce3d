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

	"github.com/quorate/quorate/lab/internal/words"
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
	t.add(nil, "WATCHES:", "DELAY", nil, nil, nil, nil, "LEASES:", nil)
	t.add("FAULT", "DELIVERED", "P50", "P99", "MAX", "LOST", "ENDED", "KEPT", "EXPIRED")
	for _, row := range r.Rows {
		w, l := row.Watches, row.Leases
		some := w.Delivered > 0
		t.add(words.Clip(row.Name, nameWidth), w.Delivered, orDash(some, w.DelayP50), orDash(some, w.DelayP99), orDash(some, w.DelayMax),
			w.Lost, w.Ended, l.Kept, l.Expired)
	}
	b.WriteString("\n" + t.String() + "\n")
	writeSentence(b, "An event counts in the row in which its write was sent, once for each watch that DELIVERED it. DELAY is the time "+
		"from the acknowledgement of the write, or from its first delivery to any watch if the outcome was unknown, to the "+
		"delivery of the event; 0 if the event was first. LOST events were acknowledged and never delivered; ENDED "+
		"watches ended by themselves, and their readers watched again. KEPT leases were held in the row and did not expire in it.")
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

// writeVerdict writes what was checked, and the result.
func writeVerdict(b *strings.Builder, r Report) {
	switch {
	case r.Failure != "":
		writeSentence(b, "The run could not go on: "+r.Failure+".")
	case r.Interrupted:
		writeSentence(b, "The run was ended early.")
	}
	if r.Checked == nil {
		b.WriteString("nothing was checked\n")
		return
	}
	fmt.Fprintf(b, "%s%-21s%v", r.Checked, "verdict", r.Verdict)
}
