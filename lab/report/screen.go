package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/internal/words"
	"github.com/quorate/quorate/lab/measure"
)

// Screen shows progress as a table that redraws itself on a terminal.
type Screen struct {
	w     io.Writer
	size  func() (width, height int)
	drawn int // lines on the screen
}

// NewScreen returns a Screen on a terminal that understands ANSI sequences; size
// returns its width and height in characters.
func NewScreen(w io.Writer, size func() (width, height int)) *Screen {
	return &Screen{w: w, size: size}
}

// Show draws the snapshot in place of the one before.
func (s *Screen) Show(snap Snapshot) {
	width, height := s.size()
	lines := screenLines(snap)
	if room := max(height-1, 1); len(lines) > room {
		lines = lines[:room]
	}
	var b strings.Builder
	b.WriteString(s.erase())
	for _, line := range lines {
		b.WriteString(words.ClipLine(line, max(width-1, 1)))
		b.WriteByte('\n')
	}
	s.drawn = len(lines)
	_, _ = io.WriteString(s.w, b.String())
}

// Clear removes what was drawn.
func (s *Screen) Clear() {
	_, _ = io.WriteString(s.w, s.erase())
	s.drawn = 0
}

// erase returns the sequence that goes up to the first drawn line and clears the
// screen from there.
func (s *Screen) erase() string {
	if s.drawn == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", s.drawn)
}

// screenLine fits on a terminal of 80 characters.
const screenLine = "%-15s  %9s  %6s  %7s  %7s  %7s  %7s  %7s"

// screenLines draws one line for each row, so that a run of every fault fits
// on a terminal of 24 lines.
func screenLines(s Snapshot) []string {
	lines := []string{
		fmt.Sprintf("%s of about %s   %s", clock(s.Elapsed), clock(max(s.Total, s.Elapsed)), s.Phase),
		"",
	}
	if len(s.Rows) == 0 {
		return lines
	}
	lines = append(lines, fmt.Sprintf(screenLine, "FAULT", "COMPLETED", "ERRORS", "UNKNOWN", "GAP", "P99", "SILENCE", "EXPIRED"))
	for _, row := range s.Rows {
		sum := summarize(row)
		lines = append(lines, fmt.Sprintf(screenLine, row.Name, words.Count(sum.completed), words.Count(sum.errors), words.Count(sum.unknown),
			words.Duration(sum.gap), words.Duration(sum.p99), words.Duration(sum.silence), words.Count(sum.expired)))
	}
	lines = append(lines, "", lastNote(s.Rows))
	if s.Violations > 0 {
		lines = append(lines, strings.ToUpper(words.Plural(int64(s.Violations), "violation"))+" so far")
	}
	return lines
}

// lastNote returns the latest note of all rows, or how to end the run if there
// is none.
func lastNote(rows []measure.Row) string {
	for _, row := range slices.Backward(rows) {
		if n := len(row.Notes); n > 0 {
			return fmt.Sprintf("%s  %s: %s", clock(row.Notes[n-1].At), row.Name, row.Notes[n-1].Text)
		}
	}
	return "Ctrl-C ends the run early and prints what was measured"
}

// clock formats an offset from the beginning of the run: "1:04".
func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
