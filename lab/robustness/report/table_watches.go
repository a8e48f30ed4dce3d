package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/lab/internal/words"
	"github.com/quorate/quorate/lab/robustness/measure"
)

const watchLine = "%-15s  %9s  %7s  %7s  %7s  %7s  %4s  %5s  %4s  %7s  %7s"

// writeWatches writes the table of the watches and leases, and what its words mean.
func writeWatches(b *strings.Builder, r Report) {
	b.WriteByte('\n')
	writeLine(b, fmt.Sprintf(watchLine, "", "WATCHES:", "DELAY", "", "", "", "", "", "LEASES:", "", ""))
	writeLine(b, fmt.Sprintf(watchLine,
		"FAULT", "DELIVERED", "P50", "P99", "MAX", "SILENCE", "LOST", "ENDED", "KEPT", "EXPIRED", "MARGIN"))
	for _, row := range r.Rows {
		writeWatchRow(b, row)
	}
	b.WriteByte('\n')
	for _, s := range []string{
		"An event counts in the row in which its write was sent, once for each watch that DELIVERED it. DELAY is the time " +
			"from the acknowledgement of the write, or from its first delivery to any watch if the outcome was unknown, to the " +
			"delivery of the event; 0 if the event was first. SILENCE is the longest time in the row in which a watch delivered nothing " +
			"although it owed an event, whose write had been acknowledged. LOST events were owed and never delivered; ENDED " +
			"watches ended by themselves, and their readers watched again.",
		"KEPT leases were held in the row and did not expire in it. MARGIN is the least time that a lease had left when a " +
			"renewal arrived, as the client itself claimed.",
	} {
		writeSentence(b, s)
	}
}

func writeWatchRow(b *strings.Builder, row measure.Row) {
	w, l := row.Watches, row.Leases
	p50, p99, most, margin := "-", "-", "-", "-"
	if w.Delivered > 0 {
		p50, p99, most = words.Duration(w.DelayP50), words.Duration(w.DelayP99), words.Duration(w.DelayMax)
	}
	if l.Renewals > 0 {
		margin = words.Duration(l.SmallestMargin)
	}
	writeLine(b, fmt.Sprintf(watchLine, words.Clip(row.Name, 15), words.Count(w.Delivered), p50, p99, most, words.Duration(w.LongestSilence),
		words.Count(w.Undelivered), words.Count(w.Ended), words.Count(l.Kept), words.Count(l.Expired), margin))
}

// watchSentences says what was checked of the watches, and the result.
func watchSentences(r Report) []string {
	c, v := r.Watches, r.Watches.Verdict
	if c.Skipped != "" {
		return []string{"The watches were NOT checked: " + c.Skipped + "."}
	}
	if v.Watches == 0 {
		return nil
	}
	what := fmt.Sprintf("%s of %s, up to revision %d", words.Plural(v.Events, "event"), watches(v.Watches), c.Through)
	if v.OK() {
		return []string{what + ": none was lost, repeated, out of order or untrue."}
	}
	broken := make([]string, 0, len(v.Counts))
	for _, promise := range slices.Sorted(maps.Keys(v.Counts)) {
		broken = append(broken, fmt.Sprintf("%s: %d", promise, v.Counts[promise]))
	}
	return []string{fmt.Sprintf("%s: promises were broken (%s).", what, strings.Join(broken, ", "))}
}

// leaseSentences says what was checked of the leases, and the result.
func leaseSentences(r Report) []string {
	if r.LeaseLooks == 0 {
		return nil
	}
	looks := words.Plural(r.LeaseLooks, "look") + " at keys of leases"
	if early := r.Verdict.Counts[LeaseEndedEarly]; early > 0 {
		return []string{fmt.Sprintf("%s: %s gone while the client claimed that the lease lives.", looks, words.Count(int64(early)))}
	}
	return []string{looks + ": none was gone while the client claimed that the lease lives."}
}

func watches(n int64) string {
	if n == 1 {
		return "1 watch"
	}
	return words.Count(n) + " watches"
}
