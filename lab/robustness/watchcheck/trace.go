package watchcheck

import (
	"fmt"

	"github.com/quorate/quorate/lab/robustness/history"
)

// delivery is one event as it was delivered.
type delivery struct {
	event *history.Event
	// response that brought it.
	response int
	// at is where the event stands in the reference, or none.
	at int
	// wanted tells that the event matches the request.
	wanted bool
	// repeated tells that the event had been delivered before.
	repeated bool
}

// proper reports whether it is the first delivery of an event that happened and
// matches the request. Order and completeness are checked by these; the others are
// violations already.
func (d *delivery) proper() bool { return d.wanted && !d.repeated && d.at != none }

// trace is one watch beside the reference.
type trace struct {
	ref        *indexed
	watch      *history.Watch
	verdict    *Verdict
	deliveries []delivery
	// has marks the events of the reference that were delivered.
	has map[int]bool
	// start is the first revision that the watch must deliver, 0 if not known. It is exact
	// if the request tells it; else it is only certain that the watch began at it or
	// before.
	start int64
	exact bool
}

// follow lays a watch beside the reference.
func follow(ref *indexed, w *history.Watch, verdict *Verdict) *trace {
	t := &trace{ref: ref, watch: w, verdict: verdict, has: map[int]bool{}}
	unknown := map[moment]bool{}
	for n := range w.Responses {
		events := w.Responses[n].Events
		for i := range events {
			e := &events[i]
			d := delivery{event: e, response: n, at: ref.find(e), wanted: w.Request.Matches(*e)}
			if d.at != none {
				d.repeated = t.has[d.at]
				t.has[d.at] = true
			} else {
				id := moment{e.ModRevision, e.Key}
				d.repeated = unknown[id]
				unknown[id] = true
			}
			t.deliveries = append(t.deliveries, d)
		}
	}
	t.start, t.exact = t.begin()
	return t
}

// begin returns the first revision that the watch must deliver.
//
// The response that tells of the creation has a header which etcd reads after it
// has registered the watch: the watch begins at the revision after that one or
// before.
func (t *trace) begin() (start int64, exact bool) {
	if t.watch.Request.StartRevision > 0 {
		return t.watch.Request.StartRevision, true
	}
	start = t.watch.StartedBy
	for _, r := range t.watch.Responses {
		if r.Created || r.IsProgress() {
			start = earlier(start, r.Revision+1)
		}
		if !r.Created {
			break
		}
	}
	for d := range t.proper {
		start = earlier(start, d.event.ModRevision)
		break
	}
	return start, false
}

// earlier returns the lower of two revisions, of which the first may be unknown.
func earlier(known, revision int64) int64 {
	if known == 0 {
		return revision
	}
	return min(known, revision)
}

// proper yields the proper deliveries in their order.
func (t *trace) proper(yield func(*delivery) bool) {
	for i := range t.deliveries {
		if d := &t.deliveries[i]; d.proper() && !yield(d) {
			return
		}
	}
}

// first returns the delivery of the event that is the first in the order of the reference, nil if there is none.
func (t *trace) first() (first *delivery) {
	for d := range t.proper {
		if first == nil || d.at < first.at {
			first = d
		}
	}
	return first
}

// reached returns the revision up to which the watch is known to have come by what
// it delivered, 0 if it delivered nothing, and the response that shows it.
func (t *trace) reached() (revision int64, response int) {
	for d := range t.proper {
		if d.event.ModRevision > revision {
			revision, response = d.event.ModRevision, d.response
		}
	}
	for n, r := range t.watch.Responses {
		if r.IsProgress() && r.Revision > revision {
			revision, response = r.Revision, n
		}
	}
	return revision, response
}

// missing returns the events that match and were not delivered, of those from
// index from of the reference on whose revision is at most through.
func (t *trace) missing(from int, through int64) []int {
	var missing []int
	for i := from; i < len(t.ref.Events) && t.ref.Events[i].ModRevision <= through; i++ {
		if !t.has[i] && t.watch.Request.Matches(t.ref.Events[i]) {
			missing = append(missing, i)
		}
	}
	return missing
}

// report adds a violation, with the responses that prove it.
func (t *trace) report(p Promise, responses []int, format string, args ...any) {
	t.verdict.add(t.watch, p, fmt.Sprintf(format, args...), responses...)
}
