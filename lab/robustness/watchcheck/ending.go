package watchcheck

import (
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/lab/robustness/history"
)

// terminal holds a watch to [Terminal].
func terminal(t *trace) {
	last := none
	for n, r := range t.watch.Responses {
		if last != none {
			t.report(Terminal, []int{last, n}, "a response came after the last one")
			return
		}
		if r.IsTerminal() {
			last = n
		}
	}
	if last == none {
		if t.watch.End == history.EndedByItself {
			t.report(Terminal, t.final(), "its channel was closed without a last response, and its context lived")
		}
		return
	}
	if t.watch.End == history.StillOpen {
		t.report(Terminal, []int{last}, "its channel stayed open after the last response")
	}
	t.reason(last)
}

// final returns the number of the response that came last.
func (t *trace) final() []int {
	if len(t.watch.Responses) == 0 {
		return nil
	}
	return []int{len(t.watch.Responses) - 1}
}

// reason checks that the last response gives a reason that may end a watch.
func (t *trace) reason(n int) {
	r := t.watch.Responses[n]
	switch {
	case r.Err == nil:
		t.report(Terminal, []int{n}, "its last response has no error")
	case r.CompactRevision != 0, errors.Is(r.Err, rpctypes.ErrCompacted), errors.Is(r.Err, rpctypes.ErrPermissionDenied):
	case errors.Is(r.Err, rpctypes.ErrNoLeader):
		if !t.watch.Request.RequireLeader {
			t.report(Terminal, []int{n}, "it ended because a member had no leader, which its reader did not ask to be told")
		}
	case t.watch.End == history.EndedByItself:
		t.report(Terminal, []int{n}, "it ended for a reason that a client outlives: %v", r.Err)
	}
}

// compacted holds a watch to [Compacted].
func compacted(t *trace) {
	for n, r := range t.watch.Responses {
		if r.CompactRevision == 0 && !errors.Is(r.Err, rpctypes.ErrCompacted) {
			continue
		}
		if t.watch.Request.StartRevision < 0 {
			return // etcd calls these compacted
		}
		t.compaction(n, r.CompactRevision)
		return
	}
}

// compaction checks an end for compaction to a revision.
func (t *trace) compaction(n int, revision int64) {
	if !slices.Contains(t.ref.Compactions, revision) {
		t.report(Compacted, []int{n}, "it ended for a compaction to revision %d, which nobody made", revision)
		return
	}
	next := t.floor() + 1
	if reached, _ := t.reached(); reached >= next {
		next = reached + 1
	}
	if revision <= next && (t.exact || next > 1) {
		t.report(Compacted, []int{n}, "it ended for a compaction to revision %d although it had come to %d, which is still there",
			revision, next)
	}
}

// created holds a watch to [Created].
func created(t *trace) {
	for n, r := range t.watch.Responses {
		switch {
		case r.Created && !t.watch.Request.CreatedNotify:
			t.report(Created, []int{n}, "it was told of its creation, which its reader did not ask for")
			return
		case r.Created && n > 0:
			t.report(Created, []int{0, n}, "it was told of its creation in response %d", n)
			return
		case !r.Created && n == 0 && t.watch.Request.CreatedNotify && !r.IsTerminal():
			t.report(Created, []int{n}, "its first response does not tell of its creation, which its reader asked for")
			return
		}
	}
}

// asked holds a watch to [Asked].
func asked(t *trace) {
	if t.watch.Request.ProgressNotify || t.watch.ProgressRequested {
		return
	}
	for n, r := range t.watch.Responses {
		if r.IsProgress() {
			t.report(Asked, []int{n}, "a bookmark came that nobody had asked for")
			return
		}
	}
}
