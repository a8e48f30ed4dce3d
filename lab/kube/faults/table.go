package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// printTables prints what was measured as tables of Markdown.
func printTables(out io.Writer, r record) error {
	var b strings.Builder
	row := func(cells ...any) {
		for _, c := range cells {
			fmt.Fprintf(&b, "| %v\t", c)
		}
		b.WriteString("|\n")
	}
	rule := func(columns int) {
		b.WriteString(strings.Repeat("|-\t", columns) + "|\n")
	}
	row("client", "ready after", "CPU until then", "CPU, idle", "heap", "connections to etcd")
	rule(6)
	for _, r := range r.Results {
		if r.Cost == (cost{}) {
			continue
		}
		row(r.Client, seconds(r.Cost.Ready), fmt.Sprintf("%.1f s", r.Cost.StartCPU), fmt.Sprintf("%.1f s/min", r.Cost.IdleCPU),
			fmt.Sprintf("%.0f MiB", r.Cost.Heap), r.Cost.Connections)
	}
	b.WriteString("\n")
	row("fault of etcd", "client", "event", "LIST", "LIST, quiet kind", "write", "writes failed", "leases lost", "not ready")
	rule(9)
	for i := range r.Results[0].Rows {
		for _, r := range r.Results {
			s := r.Rows[i]
			row(s.Fault, r.Client, seconds(s.Event), seconds(s.List), seconds(s.QuietList), seconds(s.Write),
				fmt.Sprintf("%d of %d", s.FailedWrites, s.Writes), fmt.Sprintf("%d of %d", s.LeasesLost, leaders), seconds(s.NotReady))
		}
	}
	for _, r := range r.Results {
		if len(r.Starts) > 0 {
			fmt.Fprintf(&b, "\nStarted while a follower is cut off, %s: %s\n", r.Client, started(r.Starts))
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return w.Flush()
}

// started sums starts up; those that failed took 0.
func started(all []float64) string {
	ready, slowest := 0, 0.0
	for _, d := range all {
		if d > 0 {
			ready++
		}
		slowest = max(slowest, d)
	}
	return fmt.Sprintf("ready in %d of %d tries, within %s", ready, len(all), seconds(slowest))
}

func seconds(s float64) string { return fmt.Sprintf("%.2f s", s) }
