package report

import (
	"fmt"
	"io"
	"time"
)

// Lines shows progress as plain lines, for logs and pipes: each note and
// each row when it ends, the current figures every five seconds, and each phase
// outside the rows.
type Lines struct {
	w      io.Writer
	phase  string
	rows   int // rows whose end was printed
	notes  int // notes of row number rows that were printed
	status time.Duration
}

// statusEvery is the time between two lines about the current figures.
const statusEvery = 5 * time.Second

// NewLines returns a Lines that writes to w. Errors of w are ignored: progress
// is not the result.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Show prints what is new since the last snapshot.
func (l *Lines) Show(s Snapshot) {
	open := len(s.Rows) > 0 && s.Rows[len(s.Rows)-1].Open
	for i := l.rows; i < len(s.Rows); i++ {
		row := s.Rows[i]
		for _, n := range row.Notes[l.notes:] {
			l.print(n.At, row.Name+": "+n.Text)
		}
		l.notes = len(row.Notes)
		if !row.Open {
			l.print(row.End, row.Name+" ended: "+summarize(row).String())
			l.rows, l.notes = i+1, 0
		}
	}
	if s.Phase != l.phase && !open {
		l.print(s.Elapsed, s.Phase)
	}
	l.phase = s.Phase
	if open && s.Elapsed-l.status >= statusEvery {
		row := s.Rows[len(s.Rows)-1]
		l.print(s.Elapsed, row.Name+" so far: "+summarize(row).String())
	}
}

func (l *Lines) print(at time.Duration, text string) {
	l.status = max(l.status, at)
	_, _ = fmt.Fprintf(l.w, "%6.1fs  %s\n", at.Seconds(), text)
}
