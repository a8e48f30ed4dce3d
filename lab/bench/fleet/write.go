package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/quorate/quorate/lab/servers"
)

// writeTable writes the result for people.
func writeTable(w io.Writer, r result) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, p := range r.phases {
		_, _ = fmt.Fprintf(table, "%s, %g s\tOFFICIAL\tQUORATE\tOFFICIAL : QUORATE\n", strings.ToUpper(p.name), p.length.Seconds())
		for _, l := range p.lines {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", l.metric, l.cell(servers.Official), l.cell(servers.Quorate), l.ratio())
		}
		_, _ = fmt.Fprintln(table, "\t\t\t")
	}
	_ = table.Flush() // a Builder takes all that is written
	for _, p := range r.phases {
		_, _ = fmt.Fprintf(&b, "%s: %s.\n", p.name, p.about)
	}
	for _, note := range r.notes {
		b.WriteString(note + ".\n")
	}
	_, _ = fmt.Fprintf(&b, "%d clients of each kind, in %d processes. Official client %s, %s on %s/%s with %d CPUs, which clients and members share.\n",
		r.clients, r.processes, officialVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	for line := range strings.Lines(b.String()) {
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func (l line) cell(kind servers.Client) string {
	v, ok := l.values[kind]
	if !ok {
		return "-"
	}
	return strings.TrimSpace(number(v) + " " + l.unit)
}

// ratio is the official client's value divided by Quorate's.
func (l line) ratio() string {
	official, measured := l.values[servers.Official]
	quorate := l.values[servers.Quorate]
	if !measured || quorate == 0 {
		return "-"
	}
	return number(official / quorate)
}

// number formats v with at most two digits after the point, and with none from 100 on.
func number(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}
