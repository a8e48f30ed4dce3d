package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Table writes lines in columns; "-" stands for what is not known. Characters that control a
// terminal become spaces: cells may come from elsewhere.
func Table(b *strings.Builder, lines [][]string) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, cells := range lines {
		for i, c := range cells {
			if c == "" && i < len(cells)-1 {
				c = "-"
			}
			cells[i] = OneLine(c)
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // b takes everything
	}
	_ = w.Flush() // to b
}

// OneLine is [Clean] for a text that is to stay on its line.
func OneLine(text string) string { return strings.ReplaceAll(Clean(text), "\n", " ") }

// Clean replaces characters that control a terminal by spaces, but not the ends of lines. It is for texts that come from elsewhere.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' {
			return r
		}
		return ' '
	}, text)
}

// CleanJSON escapes characters that control a terminal in a JSON text, which stays the same for programs: encoding/json escapes
// those of ASCII alone.
func CleanJSON(text []byte) []byte {
	var out []byte
	for _, r := range string(text) {
		if unicode.IsPrint(r) || r == '\n' {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// Count returns a number of things, whose name gets an s unless there is one.
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Milliseconds formats a time, "" for 0.
func Milliseconds(v float64) string {
	switch {
	case v == 0:
		return ""
	case v < 10:
		return fmt.Sprintf("%.1f ms", v)
	case v < 10_000:
		return fmt.Sprintf("%.0f ms", v)
	}
	return fmt.Sprintf("%.1f s", v/1000)
}
