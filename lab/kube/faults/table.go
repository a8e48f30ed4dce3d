package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// printTables prints what was measured as tables of Markdown.
func printTables(out io.Writer, all []result) error {
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
	for _, r := range all {
		row(r.client, seconds(r.cost.Ready), fmt.Sprintf("%.1f s", r.cost.StartCPU), fmt.Sprintf("%.1f s/min", r.cost.IdleCPU),
			fmt.Sprintf("%.0f MiB", r.cost.Heap), r.cost.Connections)
	}
	b.WriteString("\n")
	row("fault of etcd", "client", "event", "LIST", "LIST, quiet kind", "write", "writes failed", "leases lost", "not ready")
	rule(9)
	for i := range all[0].rows {
		for _, r := range all {
			s := r.rows[i]
			row(s.fault, r.client, seconds(s.Event), seconds(s.List), seconds(s.QuietList), seconds(s.Write),
				fmt.Sprintf("%d of %d", s.FailedWrites, s.Writes), fmt.Sprintf("%d of %d", s.Lost, leaders), seconds(s.NotReady))
		}
	}
	for _, r := range all {
		if len(r.starts) > 0 {
			fmt.Fprintf(&b, "\nStarted while a follower is cut off, %s: %s\n", r.client, started(r.starts))
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return w.Flush()
}

// started sums starts up; those that failed took 0.
func started(all []time.Duration) string {
	ready, slowest := 0, time.Duration(0)
	for _, d := range all {
		if d > 0 {
			ready++
		}
		slowest = max(slowest, d)
	}
	return fmt.Sprintf("ready in %d of %d tries, within %s", ready, len(all), seconds(slowest))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
