package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// duration formats d with about three digits: "0.84 ms", "8.41 ms", "123 ms",
// "1.23 s", "12.3 s", "123 s".
func duration(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 9.995:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 99.95:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 999.5:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 9_995:
		return fmt.Sprintf("%.2f s", ms/1e3)
	case ms < 99_950:
		return fmt.Sprintf("%.1f s", ms/1e3)
	default:
		return fmt.Sprintf("%.0f s", ms/1e3)
	}
}

// clock formats an offset from the beginning of the run: "1:04".
func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// count formats n with a comma between thousands.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// plural returns "1 error", "2 errors".
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// clip cuts a line to a width in characters, and puts it on one line.
func clip(s string, width int) string {
	s = strings.Join(strings.Fields(s), " ")
	return clipLine(s, width)
}

// clipLine is clip for a line whose spaces matter.
func clipLine(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(width-1, 0)]) + "…"
}

// wrap breaks a sentence into lines of at most width characters; the second and
// later lines are indented. Words too long for a line are cut.
func wrap(s string, width int, indent string) string {
	var b strings.Builder
	col := 0
	for i, word := range strings.Fields(s) {
		word = clipLine(word, width-len(indent))
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case col+1+n > width:
			b.WriteString("\n" + indent)
			col = len(indent)
		default:
			b.WriteByte(' ')
			col++
		}
		b.WriteString(word)
		col += n
	}
	return b.String()
}
