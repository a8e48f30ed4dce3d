package comparison

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// duration formats milliseconds with two or three digits: "0.8 ms", "12 ms", "840 ms",
// "1.23 s", "10.0 s", "123 s".
func duration(ms float64) string {
	switch {
	case ms == 0:
		return "0"
	case ms < 9.95:
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

// configured formats milliseconds that are configured: "10 s", "2.5 s", "5 ms".
func configured(ms float64) string {
	if ms < 1000 {
		return strconv.FormatFloat(ms, 'f', -1, 64) + " ms"
	}
	return strconv.FormatFloat(ms/1e3, 'f', -1, 64) + " s"
}

// percent formats a part of a rate: "97 %". It rounds halves up, as the page's script does.
func percent(p float64) string { return fmt.Sprintf("%.0f %%", math.Floor(p+0.5)) }

// span tells how soon the first and the last of all callers went on: "12 – 30 ms".
func (r Resumption) span(callers int) string {
	first, last := duration(r.FirstMS), duration(r.LastMS)
	switch {
	case r.Callers == 0:
		return "none"
	case r.Callers < callers:
		return fmt.Sprintf("%s, %d of %d", first, r.Callers, callers)
	case first == last:
		return last
	case strings.HasSuffix(first, " ms") && strings.HasSuffix(last, " ms"):
		return strings.TrimSuffix(first, " ms") + " – " + last
	case strings.HasSuffix(first, " s") && strings.HasSuffix(last, " s"):
		return strings.TrimSuffix(first, " s") + " – " + last
	default:
		return first + " – " + last
	}
}

// last tells how soon the last of all callers went on: "30 ms", "4 of 6".
func (r Resumption) last(callers int) string {
	if r.Callers < callers {
		return fmt.Sprintf("%d of %d", r.Callers, callers)
	}
	return duration(r.LastMS)
}
