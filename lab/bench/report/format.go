package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quorate/quorate/lab/bench/cases"
)

// value formats a number with its unit: "25.5 s", "0.84 ms", "1.27 KB", "60,000".
func value(v float64, unit cases.Unit) string {
	switch unit {
	case cases.Seconds:
		return duration(v)
	case cases.Count:
		if v >= 1000 {
			return integer(int(v))
		}
		return number(v)
	default:
		return number(v) + " " + string(unit)
	}
}

// duration formats seconds with about three digits.
func duration(s float64) string {
	switch {
	case s >= 9.995:
		return fmt.Sprintf("%.1f s", s)
	case s >= 0.9995:
		return fmt.Sprintf("%.2f s", s)
	case s >= 0.09995:
		return fmt.Sprintf("%.0f ms", s*1e3)
	case s >= 0.009995:
		return fmt.Sprintf("%.1f ms", s*1e3)
	default:
		return number(s*1e3) + " ms"
	}
}

// number formats v with at most two digits after the point.
func number(v float64) string { return strconv.FormatFloat(round(v), 'f', -1, 64) }

// integer formats n, which is not negative, with a comma between thousands.
func integer(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

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

// wrap breaks a text into lines of at most width characters.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
