package report

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/lab/internal/words"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/measure"
)

// Snapshot is the state of a run that has not ended.
type Snapshot struct {
	// Elapsed since the load began.
	Elapsed time.Duration
	// Phase says what is being done, such as "starting 3 members".
	Phase string
	// Rows so far; only the last one can be open.
	Rows []measure.Row
	// Violations found so far.
	Violations int
}

// summary adds up the kinds of a row.
type summary struct {
	completed, errors, unknown int64
	gap, p99                   time.Duration
	gapKind                    history.Kind
	silence                    time.Duration
	expired                    int64
}

// summarize adds the counts of all kinds and takes the worst of their gaps and
// of their p99; silence and expired are those of the watches and leases.
func summarize(row measure.Row) summary {
	s := summary{silence: row.Watches.LongestSilence, expired: row.Leases.Expired}
	for _, k := range history.Kinds() {
		stats := row.Kinds[k]
		s.completed += stats.Completed
		s.errors += stats.Errors
		s.unknown += stats.Unknown
		s.p99 = max(s.p99, stats.P99)
		if stats.LongestGap > s.gap {
			s.gap, s.gapKind = stats.LongestGap, k
		}
	}
	return s
}

// String describes the sums in a line.
func (s summary) String() string {
	return fmt.Sprintf("%s completed, %s, %s unknown, longest gap %s (%s), silence %s, %s expired",
		words.Count(s.completed), words.Plural(s.errors, "error"), words.Count(s.unknown), words.Duration(s.gap), s.gapKind,
		words.Duration(s.silence), words.Plural(s.expired, "lease"))
}
