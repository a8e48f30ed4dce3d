package report

import (
	"math"
	"strings"

	"github.com/quorate/quorate/lab/bench/cases"
	"github.com/quorate/quorate/lab/internal/words"
)

// Row is one metric of one case: a line of the table.
type Row struct {
	Case  string        `json:"case"`
	About string        `json:"about"`
	Unit  cases.Unit    `json:"unit,omitempty"`
	Sides map[string]Of `json:"clients"`
	// Ratio is Quorate's median divided by the official client's, nil if that is 0.
	Ratio *float64 `json:"ratio,omitempty"`
	// Target is nil if there is none at the size that was run.
	Target *cases.Target `json:"target,omitempty"`
	// Met says whether the target is met, nil without one.
	Met *bool `json:"met,omitempty"`
}

// Of is what was measured of one client.
type Of struct {
	Median float64   `json:"median"`
	Values []float64 `json:"values"`
}

// Rows returns the lines of the table.
func (r Report) Rows() []Row {
	var rows []Row
	for _, result := range r.Results {
		for _, m := range result.Case.Metrics {
			rows = append(rows, result.row(m, r.Short))
		}
	}
	return rows
}

func (r Result) row(m cases.Metric, short bool) Row {
	row := Row{
		Case:  r.Case.Name,
		About: strings.ReplaceAll(m.About, "{n}", words.Count(int64(r.Size))),
		Unit:  m.Unit,
		Sides: make(map[string]Of),
	}
	for client := range r.Samples {
		values := r.values(client, m.Name)
		row.Sides[client] = Of{Median: median(values), Values: values}
	}
	official, measuredOfficial := row.Sides[Official]
	quorate, measuredQuorate := row.Sides[Quorate]
	both := measuredOfficial && measuredQuorate
	if both && official.Median != 0 {
		ratio := quorate.Median / official.Median
		row.Ratio = &ratio
	}
	if m.Target == nil || short && m.Target.FullSize {
		return row
	}
	row.Target = m.Target
	if measuredQuorate && (both || !m.Target.OfOfficial) {
		met := met(m, official.Median, quorate.Median)
		row.Met = &met
	}
	return row
}

// met compares what was measured with the target. Counts are compared as they are
// shown, so that 4 goroutines for 10,000 watches are none for each; everything else
// as it is.
func met(m cases.Metric, official, quorate float64) bool {
	if m.Unit == cases.Count {
		official, quorate = round(official), round(quorate)
	}
	if m.Target.OfOfficial {
		return quorate <= m.Target.AtMost*official
	}
	return quorate <= m.Target.AtMost
}

// round rounds to two digits after the point.
func round(v float64) float64 { return math.Round(v*100) / 100 }
