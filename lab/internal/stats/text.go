package stats

import (
	"math"

	"github.com/dustin/go-humanize"
)

// Text returns v with three digits, or all those before the point.
func Text(v float64) string {
	scale := math.Pow(10, max(0, 2-math.Floor(math.Log10(max(v, 1)))))
	return humanize.Commaf(math.Round(v*scale) / scale)
}
