package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/quorate/quorate/lab/report"
)

// progress shows how a run stands.
type progress interface {
	// Show shows the latest state.
	Show(report.Snapshot)
	// Clear takes away what must not stand before the result.
	Clear()
}

// newProgress returns a table that redraws itself if w is a terminal that can,
// and plain lines otherwise.
func newProgress(w io.Writer) progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return plainLines{report.NewLines(w)}
	}
	return report.NewScreen(w, func() (width, height int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24
		}
		return width, height
	})
}

// plainLines are lines that stay.
type plainLines struct {
	*report.Lines
}

// Clear does nothing.
func (plainLines) Clear() {}
