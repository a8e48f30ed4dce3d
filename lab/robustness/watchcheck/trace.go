package watchcheck

import (
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/history"
)

// none stands for no event of the reference.
const none = -1

// trace compares one watch with the reference, up to the latest response that was taken.
type trace struct {
	ref     *indexed
	watch   *history.Watch
	verdict *tally.Verdict

	response int // that is being taken
	// start is the first revision that the watch must deliver, 0 if not known. It is exact
	// if the request names it. Otherwise the watch began at this revision or an earlier
	// one.
	start int64
	exact bool
	// came has the events of the reference that were delivered, with their responses.
	came     map[int]int
	newest   int   // the last of them in the order of the reference, none before there is one
	first    int64 // the lowest of their revisions, 0 before there is one
	marked   int64 // the highest revision of a bookmark
	terminal bool  // the last response has been taken
}

func newTrace(ref *indexed, w *history.Watch, verdict *tally.Verdict) *trace {
	t := &trace{ref: ref, watch: w, verdict: verdict, came: map[int]int{}, newest: none, start: w.StartedBy}
	if w.Request.StartRevision > 0 {
		t.start, t.exact = w.Request.StartRevision, true
	}
	return t
}

// report adds a violation, with the response that proves it and the one before.
func (t *trace) report(p Promise, format string, args ...any) {
	violation := t.verdict.Add(p, "%v: "+format, append([]any{t.watch}, args...)...)
	for n := max(t.response-1, 0); n <= t.response && n < len(t.watch.Responses); n++ {
		violation.Evidence = append(violation.Evidence, describe(n, t.watch.Responses[n]))
	}
}

// take checks the next response.
func (t *trace) take(n int) {
	t.response = n
	r, request := &t.watch.Responses[n], t.watch.Request
	if t.terminal {
		t.report(Terminal, "a response came after the last one")
		return
	}
	if r.Created != (n == 0 && request.CreatedNotify) && !r.IsTerminal() {
		t.report(Created, "response %d tells of its creation: %v; its reader asked for that: %v", n, r.Created, request.CreatedNotify)
	}
	for i := range r.Events {
		t.event(&r.Events[i], r)
	}
	switch {
	case r.IsTerminal():
		t.last(r)
	case r.IsProgress():
		t.bookmark(r.Revision)
	case r.Created:
		// The header has a revision that etcd reads after it has registered the watch.
		t.startsBy(r.Revision + 1)
	case len(r.Events) == 0:
		t.report(Genuine, "a response says nothing")
	}
}

// startsBy notes that the watch began at a revision or before.
func (t *trace) startsBy(revision int64) {
	if !t.exact && (t.start == 0 || revision < t.start) {
		t.start = revision
	}
}

// event checks an event of a response. Order and completeness are checked by the first
// delivery of events that happened and match the request; the others are violations already.
func (t *trace) event(e *history.Event, r *history.WatchResponse) {
	at, happened := t.ref.at[eventID{e.ModRevision, e.Key}]
	_, again := t.came[at]
	switch {
	case !t.watch.Request.Matches(*e):
		t.report(Filter, "%v does not match the request", e)
	case !happened:
		t.report(Genuine, "%v never happened", e)
	case again:
		t.report(Unique, "%v came again", e)
	default:
		t.content(e, at, r)
		t.order(e, at)
		if e.ModRevision > r.Revision {
			t.report(Genuine, "the header of a response is of revision %d and it brings %v", r.Revision, e)
		}
	}
}

// content compares an event, and the previous key-value that came with it, with the reference. A server that has compacted the
// revision before an event has no previous key-value to give. The server reads it before the reader takes the response, so a
// compaction that was sent after that excuses nothing.
func (t *trace) content(e *history.Event, at int, r *history.WatchResponse) {
	want, got := t.ref.Events[at], e.KeyValue
	if e.IsCreate() != want.IsCreate() {
		t.report(IsCreate, "%v says that the key was created at revision %d, and it was at revision %d", e, e.CreateRevision, want.CreateRevision)
		got.CreateRevision = want.CreateRevision
	}
	if e.Type != want.Type || got != want.KeyValue {
		t.report(Genuine, "%v came as %s and was %s", e, content(&e.KeyValue), content(&want.KeyValue))
	}
	want.Prev = t.ref.previous[at]
	gone := func(c history.Answer) bool { return c.Revision >= e.ModRevision && c.Sent <= r.At }
	if !t.watch.Request.PrevKV || e.Prev == nil && slices.ContainsFunc(t.ref.Compactions, gone) {
		want.Prev = nil
	}
	if (e.Prev == nil) != (want.Prev == nil) || e.Prev != nil && *e.Prev != *want.Prev {
		t.report(PrevKV, "the previous key-value of %v is %s, and came as %s", e, content(want.Prev), content(e.Prev))
	}
}

// order checks that an event came in its turn.
func (t *trace) order(e *history.Event, at int) {
	switch newest := t.newestRevision(); {
	case at < t.newest:
		t.report(Ordered, "%v came after %v", e, t.ref.Events[t.newest])
	case e.ModRevision == newest && t.came[t.newest] != t.response:
		t.report(Atomic, "revision %d is split: %s came in a later response", newest, e.Key)
	}
	if t.exact && e.ModRevision < t.start {
		t.report(Resumable, "%v came although the watch starts at revision %d", e, t.start)
	} else if e.ModRevision <= t.marked {
		t.report(Bookmarkable, "%v came after a bookmark at revision %d", e, t.marked)
	}
	t.startsBy(e.ModRevision)
	t.came[at], t.newest = t.response, max(t.newest, at)
	if t.first == 0 || e.ModRevision < t.first {
		t.first = e.ModRevision
	}
}

func (t *trace) newestRevision() int64 {
	if t.newest == none {
		return 0
	}
	return t.ref.Events[t.newest].ModRevision
}

// reached returns the highest revision of an event or a bookmark that came, 0 before there is one.
func (t *trace) reached() int64 { return max(t.marked, t.newestRevision()) }

// passed returns the revision up to which the watch is known to be complete: all events have come, or were not requested.
func (t *trace) passed() int64 {
	if t.exact {
		return max(t.reached(), t.start-1)
	}
	return t.reached()
}

// bookmark checks a bookmark.
func (t *trace) bookmark(revision int64) {
	if !t.watch.Request.ProgressNotify && !t.watch.ProgressRequested {
		t.report(Asked, "a bookmark came that nobody had asked for")
	}
	if revision < t.passed() {
		t.report(Bookmarkable, "a bookmark at revision %d came when the watch was past revision %d", revision, t.passed())
	}
	if revision > t.ref.Through {
		t.report(Bookmarkable, "a bookmark at revision %d although the store never went past %d", revision, t.ref.Through)
	}
	t.startsBy(revision + 1)
	t.marked = max(t.marked, revision)
}

// last checks that the last response gives a reason that may end the watch.
func (t *trace) last(r *history.WatchResponse) {
	t.terminal = true
	switch {
	case r.Err == nil:
		t.report(Terminal, "its last response has no error")
	case r.CompactRevision != 0, errors.Is(r.Err, rpctypes.ErrCompacted):
		t.compacted(r.CompactRevision)
	case errors.Is(r.Err, rpctypes.ErrPermissionDenied):
	case errors.Is(r.Err, rpctypes.ErrNoLeader):
		if !t.watch.Request.RequireLeader {
			t.report(Terminal, "it ended because a member had no leader, which its reader did not ask to be told")
		}
	case t.watch.End == history.EndedByItself:
		t.report(Terminal, "it ended for a reason that a client outlives: %v", r.Err)
	}
}

// compacted checks an end for compaction to a revision.
func (t *trace) compacted(revision int64) {
	next := t.passed() + 1
	switch {
	case t.watch.Request.StartRevision < 0: // etcd calls these compacted
	case !slices.ContainsFunc(t.ref.Compactions, func(c history.Answer) bool { return c.Revision == revision }):
		t.report(Compacted, "it ended for a compaction to revision %d, which nobody made", revision)
	case revision <= next && (t.exact || next > 1):
		t.report(Compacted, "it ended for a compaction to revision %d although it had come to %d, which is still there", revision, next)
	}
}

// end checks how the watch ended, and that every event came between its start and the revision that it reached. An open watch
// must have reached the revision at which the store settled.
func (t *trace) end() {
	if t.watch.End == history.EndedByItself && !t.terminal {
		t.report(Terminal, "its channel was closed without a last response, and its context lived")
	}
	through := t.reached()
	if t.watch.End == history.StillOpen {
		through = max(through, t.ref.Settled)
		if t.terminal {
			t.report(Terminal, "its channel stayed open after the last response")
		}
	}
	if t.start == 0 {
		return
	}
	var missing []*history.Event
	for i := t.ref.from(t.start); i < len(t.ref.Events) && t.ref.Events[i].ModRevision <= through; i++ {
		if _, came := t.came[i]; !came && t.watch.Request.Matches(t.ref.Events[i]) {
			missing = append(missing, &t.ref.Events[i])
		}
	}
	if len(missing) == 0 {
		return
	}
	p := Reliable
	if t.exact && missing[0].ModRevision < t.first {
		p = Resumable
	}
	t.report(p, "it starts at revision %d, reached %d, should have reached %d, and %d events are missing, the first is %v",
		t.start, t.reached(), through, len(missing), missing[0])
}
