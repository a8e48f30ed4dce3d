package watches

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

// Result is the result of a run.
type Result struct {
	robustness.Outcome
	// Compactions that were attempted, and Events that the store went through.
	Compactions int
	Events      int64
	// Watches by how they ended: left by their readers, ended for compaction, for
	// the absence of a leader, in another way, or open to the end.
	Left, Compacted, NoLeader, Ended, Open int
	// Delivered counts what was checked.
	Delivered watchcheck.Verdict
}

// Checked reports whether there was anything to check.
func (res Result) Checked() bool { return res.Delivered.Watches > 0 }

// count counts watches by how they ended.
func (res *Result) count(watches []history.Watch) {
	for i := range watches {
		w := &watches[i]
		var last history.WatchResponse
		if n := len(w.Responses); n > 0 {
			last = w.Responses[n-1]
		}
		switch {
		case w.End == history.LeftByReader:
			res.Left++
		case w.End == history.StillOpen:
			res.Open++
		case last.CompactRevision != 0:
			res.Compacted++
		case errors.Is(last.Err, rpctypes.ErrNoLeader):
			res.NoLeader++
		default:
			res.Ended++
		}
	}
}

// String returns the result in lines for people.
func (res Result) String() string {
	if !res.Checked() {
		return robustness.Nothing
	}
	return res.Text(fmt.Sprintf("%d members", res.Members), func(line robustness.Line) {
		v := res.Delivered
		line("watches", "%d: left %d, compacted %d, no leader %d, otherwise ended %d, open to the end %d",
			v.Watches, res.Left, res.Compacted, res.NoLeader, res.Ended, res.Open)
		line("delivered", "%d events of %d in %d responses, %d bookmarks; %d compactions", v.Events, res.Events, v.Responses, v.Bookmarks, res.Compactions)
	})
}
