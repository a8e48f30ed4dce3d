package main

import (
	"fmt"
	"strings"
	"time"
)

// table returns a case's rows for people to read.
func table(c measurement, rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", c.name, c.about)
	fmt.Fprintf(&b, "  %-34s", "")
	for _, m := range c.metrics {
		fmt.Fprintf(&b, "  %10s  %6s", m.name, "ratio")
	}
	b.WriteByte('\n')
	for i, contender := range c.contenders {
		fmt.Fprintf(&b, "  %-34s", contender.name)
		for m, metric := range c.metrics {
			fmt.Fprintf(&b, "  %10s  %6.2f", metric.format(rows[i].medians[m]), rows[i].ratios[m])
		}
		b.WriteString(contender.target.verdict(c, rows[i]) + "\n")
	}
	return b.String()
}

func (t *target) verdict(c measurement, r row) string {
	if t == nil {
		return ""
	}
	relation, met := "≤", r.ratios[t.metric] <= t.bound
	if t.least {
		relation, met = "≥", r.ratios[t.metric] >= t.bound
	}
	answer := "NO"
	if met {
		answer = "yes"
	}
	return fmt.Sprintf("  %s %s %g: %s", c.metrics[t.metric].name, relation, t.bound, answer)
}

// Formats of metrics.
func perSecond(v float64) string { return fmt.Sprintf("%.0f", v) }
func count(v float64) string     { return fmt.Sprintf("%.0f", v) }

func milliseconds(v float64) string {
	return fmt.Sprintf("%.1f ms", v*1e3)
}

func nanoseconds(v float64) string {
	return time.Duration(v * float64(time.Second)).Round(time.Nanosecond).String()
}
