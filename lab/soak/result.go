package soak

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/watchcheck"
)

// Result is what came of a run. Without a verdict, because the run failed, only the
// fields up to Interrupted are set.
type Result struct {
	// Seed and Members as configured.
	Seed    uint64
	Members int
	// Interrupted reports whether the run was asked to end early.
	Interrupted bool

	// Duration from the beginning to the check.
	Duration time.Duration
	// Tally counts the faults.
	fault.Tally
	// Compactions that were attempted.
	Compactions int
	// Revisions and Events that the store went through.
	Revisions, Events int64
	// Watches by how they ended: left by their readers, ended for compaction, for
	// the absence of a leader, in another way, or open to the end.
	Left, Compacted, NoLeader, Ended, Open int
	// Verdict counts what was delivered and tells what was wrong with it.
	Verdict watchcheck.Verdict
}

// count fills in what there is to count.
func (res *Result) count(r *run, watches []history.Watch, revision int64) {
	res.Duration = r.now()
	res.Tally = r.storm.Tally()
	res.Compactions = len(r.compactor.all())
	res.Revisions, res.Events = revision, int64(len(r.rec.Events()))
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
	var b strings.Builder
	v := res.Verdict
	if v.Watches == 0 {
		return "nothing was checked\n"
	}
	fmt.Fprintf(&b, "%d members, seed %d, %s\n", res.Members, res.Seed, res.Duration.Round(time.Second))
	fmt.Fprintf(&b, "store      %d revisions, %d events, %d compactions\n", res.Revisions, res.Events, res.Compactions)
	fmt.Fprintf(&b, "faults     %v\n", res.Tally)
	fmt.Fprintf(&b, "watches    %d: left %d, compacted %d, no leader %d, otherwise ended %d, open to the end %d\n",
		v.Watches, res.Left, res.Compacted, res.NoLeader, res.Ended, res.Open)
	fmt.Fprintf(&b, "delivered  %d events in %d responses, %d bookmarks\n", v.Events, v.Responses, v.Bookmarks)
	if v.OK() {
		b.WriteString("verdict    every promise was kept\n")
		return b.String()
	}
	fmt.Fprintf(&b, "verdict    %d violations\n", v.Total())
	for _, p := range slices.Sorted(maps.Keys(v.Counts)) {
		fmt.Fprintf(&b, "  %-13s %d\n", p, v.Counts[p])
	}
	for _, violation := range v.Violations {
		fmt.Fprintf(&b, "\n%s: %s\n", violation.Promise, violation.Message)
		for _, line := range violation.Evidence {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	return b.String()
}
