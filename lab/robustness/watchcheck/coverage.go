package watchcheck

import "github.com/quorate/quorate/lab/robustness/history"

// bookmarkable holds a watch to [Bookmarkable]. That nothing is missing below a
// bookmark is the business of [Reliable].
func bookmarkable(t *trace) {
	marked, markedBy := t.floor(), none // everything up to here has come or was not asked for
	var seen int64
	next := 0
	for n, r := range t.watch.Responses {
		for ; next < len(t.deliveries) && t.deliveries[next].response == n; next++ {
			d := &t.deliveries[next]
			if !d.proper() {
				continue
			}
			seen = max(seen, d.event.ModRevision)
			if markedBy != none && d.event.ModRevision <= marked {
				t.report(Bookmarkable, []int{markedBy, n}, "%v came after a bookmark at revision %d",
					d.event, marked)
			}
		}
		if !r.IsProgress() {
			continue
		}
		t.bookmark(n, r, max(marked, seen))
		marked, markedBy = max(marked, r.Revision), n
	}
}

// floor returns the revision before the start of the watch, if it is known.
func (t *trace) floor() int64 {
	if !t.exact {
		return 0
	}
	return t.start - 1
}

// bookmark checks the revision of one bookmark: reached is where the watch stood
// before it.
func (t *trace) bookmark(n int, r history.WatchResponse, reached int64) {
	switch {
	case r.Revision < reached:
		t.report(Bookmarkable, []int{n}, "a bookmark at revision %d came when the watch was past revision %d",
			r.Revision, reached)
	case r.Revision > t.ref.Through:
		t.report(Bookmarkable, []int{n}, "a bookmark at revision %d although the store never went past %d",
			r.Revision, t.ref.Through)
	}
}

// resumable holds a watch with a start revision to [Resumable].
func resumable(t *trace) {
	if !t.exact {
		return
	}
	first := t.first()
	if first == nil {
		return // whether an event was due by now is for reliable to say
	}
	for d := range t.proper {
		if d.event.ModRevision < t.start {
			t.report(Resumable, []int{d.response}, "%v came although the watch starts at revision %d",
				d.event, t.start)
		}
	}
	if skipped := t.missing(t.ref.from(t.start), first.event.ModRevision-1); len(skipped) > 0 {
		t.report(Resumable, []int{first.response}, "it begins with %v and skips %d events before it, the first is %v",
			first.event, len(skipped), t.ref.Events[skipped[0]])
	}
}

// reliable holds a watch to [Reliable]: between its start, or its first event if
// that is later, and the revision that it reached, every event came. An open watch
// must have reached the revision at which the store settled.
func reliable(t *trace) {
	if t.start == 0 {
		return
	}
	from := t.ref.from(t.start)
	if first := t.first(); t.exact && first != nil {
		// What is missing before the first event breaks Resumable.
		from = max(from, t.ref.from(first.event.ModRevision))
	}
	reached, response := t.reached()
	through, evidence := reached, []int{response}
	if t.watch.End == history.StillOpen {
		through = max(through, t.ref.Settled)
	}
	if reached == 0 {
		evidence = nil
	}
	missing := t.missing(from, through)
	if len(missing) == 0 {
		return
	}
	e := t.ref.Events[missing[0]]
	if e.ModRevision > reached {
		t.report(Reliable, evidence,
			"it was open until everything was settled at revision %d and stands at %d: %d events are missing, the first is %v",
			t.ref.Settled, reached, len(missing), e)
		return
	}
	t.report(Reliable, evidence, "it reached revision %d and %d events are missing, the first is %v",
		reached, len(missing), e)
}
