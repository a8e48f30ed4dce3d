package report

import (
	"strconv"
	"time"

	"github.com/quorate/quorate/lab/bench/cases"
	"github.com/quorate/quorate/lab/internal/words"
)

// value formats a number with its unit: "25.5 s", "0.84 ms", "1.27 KB", "60,000".
func value(v float64, unit cases.Unit) string {
	switch unit {
	case cases.Seconds:
		return words.Duration(time.Duration(v * float64(time.Second)))
	case cases.Count:
		if v >= 1000 {
			return words.Count(int64(v))
		}
		return number(v)
	default:
		return number(v) + " " + string(unit)
	}
}

// number formats v with at most two digits after the point.
func number(v float64) string { return strconv.FormatFloat(round(v), 'f', -1, 64) }

// bound formats a target: "≤ 600 ms", "≤ 0.8 of official".
func bound(t *cases.Target, unit cases.Unit) string {
	switch {
	case t == nil:
		return ""
	case t.OfOfficial:
		return "≤ " + number(t.AtMost) + " of official"
	default:
		return "≤ " + value(t.AtMost, unit)
	}
}
