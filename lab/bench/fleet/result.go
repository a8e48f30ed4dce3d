package main

import (
	"runtime/debug"
	"slices"

	"github.com/quorate/quorate/lab/servers"
)

// percent is the unit of a row; counts have none.
const percent = "%"

// row is one number that was measured with one kind of client.
type row struct {
	metric, unit string
	value        float64
}

// result is what the program prints.
type result struct {
	clients, processes int
	phases             []phaseResult
	notes              []string
}

// phaseResult is what was measured of one phase.
type phaseResult struct {
	phase
	lines []line
}

// line is one metric of a phase with every kind of client.
type line struct {
	metric, unit string
	// values are those of each kind of client. A kind that did not get that far has
	// none.
	values map[servers.Client]float64
}

// officialVersion returns that of the official client.
func officialVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "go.etcd.io/etcd/client/v3" {
				return m.Version
			}
		}
	}
	return ""
}

// add adds what was measured with one kind of client.
func (p *phaseResult) add(kind servers.Client, rows []row) {
	last := -1
	for _, row := range rows {
		i := p.index(row.metric)
		if i < 0 {
			i = last + 1
			p.lines = slices.Insert(p.lines, i, line{row.metric, row.unit, map[servers.Client]float64{}})
		}
		p.lines[i].values[kind] = row.value
		last = i
	}
}

// index returns the place of a metric, -1 if there is none.
func (p *phaseResult) index(metric string) int {
	return slices.IndexFunc(p.lines, func(l line) bool { return l.metric == metric })
}

// complete removes phases that were not measured, and adds the zeros of counts that have no row with one kind of client.
func (r *result) complete() {
	r.phases = slices.DeleteFunc(r.phases, func(p phaseResult) bool { return p.lines == nil })
	for _, p := range r.phases {
		for kind := range p.lines[0].values { // every kind has the first line
			for _, l := range p.lines {
				if _, ok := l.values[kind]; !ok && l.unit == "" {
					l.values[kind] = 0
				}
			}
		}
	}
}
