package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/quorate/quorate/lab/internal/words"
)

// pageWidth is the width in characters of what is written for people.
const pageWidth = 120

const tableLine = "%-56s  %10s  %10s  %6s  %-17s  %-3s  %4v"

// Table writes the report for people.
func Table(w io.Writer, r Report) error {
	var b strings.Builder
	line := func(cells ...any) {
		b.WriteString(strings.TrimRight(fmt.Sprintf(tableLine, cells...), " ") + "\n")
	}
	line("MEASURED", "OFFICIAL", "QUORATE", "RATIO", "TARGET", "MET", "RUNS")
	for _, row := range r.Rows() {
		line(row.About, row.side(Official), row.side(Quorate), row.ratio(), bound(row.Target, row.Unit), row.met(), row.runs())
	}
	for _, note := range r.notes() {
		b.WriteString("\n" + words.Wrap(note, pageWidth, "") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (row Row) side(client string) string {
	of, ok := row.Sides[client]
	if !ok {
		return "-"
	}
	return value(of.Median, row.Unit)
}

func (row Row) ratio() string {
	if row.Ratio == nil {
		return "-"
	}
	return fmt.Sprintf("%.3g", *row.Ratio)
}

func (row Row) met() string {
	switch {
	case row.Met == nil:
		return ""
	case *row.Met:
		return "yes"
	default:
		return "NO"
	}
}

func (row Row) runs() int { return len(row.Sides[Official].Values) }

func (r Report) notes() []string {
	env := r.Environment
	notes := []string{
		fmt.Sprintf("Medians of RUNS; RATIO is Quorate's divided by the official client's (%s). %s on %s/%s with %d CPUs, which "+
			"the client shares with the servers.", env.OfficialVersion, env.Go, env.GOOS, env.GOARCH, env.CPUs),
	}
	if r.Short {
		notes = append(notes, "This is a short run: its sizes are not those that most targets are for.")
	}
	for _, result := range r.Results {
		notes = append(notes, result.Case.Name+": "+result.Case.About)
	}
	return notes
}

// JSON writes the report for programs, with every sample.
func JSON(w io.Writer, r Report) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Environment Environment `json:"environment"`
		Short       bool        `json:"short"`
		Rows        []Row       `json:"rows"`
	}{r.Environment, r.Short, r.Rows()})
}
