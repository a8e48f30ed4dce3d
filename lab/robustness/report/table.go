package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

func (s Setup) text() string {
	return fmt.Sprintf(`The cluster had %d members, the load %d callers of each kind, %v between calls and a deadline of %v,
and as many watches, and leases with a TTL of %v. Faults were held for %v. The seed was %d.
`, s.Members, s.Callers, time.Duration(s.Pause), time.Duration(s.CallTimeout), time.Duration(s.LeaseTTL), time.Duration(s.Hold), s.Seed)
}

// writeErrors lists the codes of failed calls, ended watches and expired leases, the most frequent first, with one text each.
func writeErrors(b *strings.Builder, r Report) {
	if len(r.Errors) == 0 {
		return
	}
	b.WriteString("What was not completed, ended by itself or expired:\n")
	for _, code := range slices.SortedFunc(maps.Keys(r.Errors), func(x, y string) int {
		return cmp.Or(cmp.Compare(r.Errors[y].Count, r.Errors[x].Count), cmp.Compare(x, y))
	}) {
		fmt.Fprintf(b, "  %7s  %s", humanize.Comma(r.Errors[code].Count), code)
		if sample := r.Errors[code].Sample; sample != "" {
			b.WriteString(", such as: " + sample)
		}
		b.WriteByte('\n')
	}
}

// writeVerdict writes what was checked, and the result.
func writeVerdict(b *strings.Builder, r Report) {
	switch {
	case r.Failure != "":
		fmt.Fprintf(b, "The run could not go on: %s.\n", r.Failure)
	case r.Interrupted:
		b.WriteString("The run was ended early.\n")
	}
	if r.Checked == nil {
		b.WriteString("nothing was checked\n")
		return
	}
	fmt.Fprintf(b, "%s%-21s%v", r.Checked, "verdict", r.Verdict)
}
