package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// writeTable writes the result for people.
func writeTable(w io.Writer, r result) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, p := range r.Phases {
		_, _ = fmt.Fprintf(table, "%s, %g s\tOFFICIAL\tQUORATE\tOFFICIAL : QUORATE\n", strings.ToUpper(p.Name), p.Seconds)
		for _, l := range p.Lines {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", l.Metric, l.cell(official), l.cell(quorate), l.ratioCell())
		}
		_, _ = fmt.Fprintln(table, "\t\t\t")
	}
	_ = table.Flush() // a Builder takes all that is written
	for _, p := range r.Phases {
		_, _ = fmt.Fprintf(&b, "%s: %s.\n", p.Name, p.About)
	}
	for _, note := range r.Notes {
		b.WriteString(note + ".\n")
	}
	b.WriteString(r.about())
	for line := range strings.Lines(b.String()) {
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func (r result) about() string {
	env := r.Environment
	processes := "each a process"
	if r.OneProcess {
		processes = "all in one process"
	}
	return fmt.Sprintf("%d clients of each kind, %s. Official client %s, %s on %s/%s with %d CPUs, which clients and members share.\n",
		r.Clients, processes, env.OfficialVersion, env.Go, env.GOOS, env.GOARCH, env.CPUs)
}

func (l line) cell(kind string) string {
	v, ok := l.Values[kind]
	if !ok {
		return "-"
	}
	return strings.TrimSpace(number(v) + " " + string(l.Unit))
}

func (l line) ratioCell() string {
	if l.Ratio == nil {
		return "-"
	}
	return number(*l.Ratio)
}

// number formats v with at most two digits after the point, and with none from 100 on.
func number(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// writeJSON writes the result for programs.
func writeJSON(w io.Writer, r result) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
