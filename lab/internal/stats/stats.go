// Package stats has the quartiles of samples.
package stats

import (
	"math"
	"slices"

	"github.com/dustin/go-humanize"
)

// Quartiles are those of some samples.
type Quartiles struct {
	Q1     float64 `json:"q1"`
	Median float64 `json:"median"`
	Q3     float64 `json:"q3"`
}

// Of sorts the values, of which there must be one at least, and returns their quartiles. Between two values they are
// interpolated.
func Of(values []float64) Quartiles {
	slices.Sort(values)
	at := func(part float64) float64 {
		place := part * float64(len(values)-1)
		i := int(place)
		next := values[min(i+1, len(values)-1)]
		return values[i] + (place-float64(i))*(next-values[i])
	}
	return Quartiles{at(0.25), at(0.5), at(0.75)}
}

// Text returns v with three digits, or all those before the point.
func Text(v float64) string {
	scale := math.Pow(10, max(0, 2-math.Floor(math.Log10(max(v, 1)))))
	return humanize.Commaf(math.Round(v*scale) / scale)
}
