// Package words puts counts, durations and sentences into reports for people.
package words

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// Duration formats d with about three digits: "0.84 ms", "8.41 ms", "123 ms",
// "1.23 s", "12.3 s", "123 s".
func Duration(d time.Duration) string {
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

// Count formats n with a comma between thousands.
func Count(n int64) string { return humanize.Comma(n) }

// Clip cuts a line to a width in characters, and puts it on one line.
func Clip(s string, width int) string {
	s = strings.Join(strings.Fields(s), " ")
	return clip(s, width)
}

// clip is Clip for a line whose spaces matter.
func clip(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(width-1, 0)]) + "…"
}

// Wrap breaks a sentence into lines of at most width characters; the second and
// later lines are indented. Words too long for a line are cut.
func Wrap(s string, width int, indent string) string {
	var b strings.Builder
	col := 0
	for i, word := range strings.Fields(s) {
		word = clip(word, width-len(indent))
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
