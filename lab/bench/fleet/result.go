package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/quorate/quorate/lab/internal/stats"
	"github.com/quorate/quorate/lab/servers"
)

// The units of rows; counts have none.
const (
	percent = " %"
	seconds = " s"
)

// row is one number that was measured with one kind of client.
type row struct {
	metric, unit string
	value        float64
}

// result is what was measured of one phase: the same rows with every kind of client, none with a kind that did not get that far.
type result struct {
	phase
	rows map[servers.Client][]row
}

// writeTable writes results for people.
func writeTable(out io.Writer, opts options, results []result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range results {
		_, _ = fmt.Fprintf(w, "%s, %v: %s\n\tOFFICIAL\tQUORATE\n", strings.ToUpper(r.name), r.length, r.about)
		for i, row := range r.rows[servers.Clients[0]] {
			_, _ = fmt.Fprint(w, row.metric)
			for _, kind := range servers.Clients {
				if rows := r.rows[kind]; i < len(rows) {
					_, _ = fmt.Fprint(w, "\t", stats.Text(rows[i].value), row.unit)
				}
			}
			_, _ = fmt.Fprintln(w)
		}
		_, _ = fmt.Fprintln(w)
	}
	_, _ = fmt.Fprintf(w, "%d clients of each kind, in %d processes, and the members share %d CPUs.\n", opts.clients, opts.processes, runtime.NumCPU())
	return w.Flush()
}
