package watchcheck

import "github.com/quorate/quorate/lab/robustness/history"

// filter holds a watch to [Filter].
func filter(t *trace) {
	for _, d := range t.deliveries {
		if !d.wanted {
			t.report(Filter, []int{d.response}, "%v does not match the request", d.event)
		}
	}
}

// genuine holds a watch to [Genuine].
func genuine(t *trace) {
	for _, d := range t.deliveries {
		switch {
		case d.at == none:
			t.report(Genuine, []int{d.response}, "%v never happened", d.event)
		case !d.proper():
		default:
			if want := t.ref.Events[d.at]; !alike(d.event, &want) {
				t.report(Genuine, []int{d.response}, "%v came as %s and was %s",
					d.event, content(d.event.KeyValue), content(want.KeyValue))
			}
		}
	}
	for n, r := range t.watch.Responses {
		if len(r.Events) == 0 && !r.Created && !r.IsTerminal() && !r.IsProgress() {
			t.report(Genuine, []int{n}, "a response says nothing")
		}
		for _, e := range r.Events {
			if e.ModRevision > r.Revision && t.ref.find(&e) != none {
				t.report(Genuine, []int{n}, "the header of a response is of revision %d and it brings %v", r.Revision, e)
				break
			}
		}
	}
}

// alike reports whether an event came as it was, but for what [IsCreate] checks.
func alike(got, want *history.Event) bool {
	a, b := got.KeyValue, want.KeyValue
	if got.IsCreate() != want.IsCreate() {
		a.CreateRevision = b.CreateRevision
	}
	return got.Type == want.Type && a == b
}

// isCreate holds a watch to [IsCreate].
func isCreate(t *trace) {
	for d := range t.proper {
		prevKV := t.ref.previous(d.at)
		if d.event.Type != history.PutEvent || d.event.IsCreate() == (prevKV == nil) {
			continue
		}
		if prevKV == nil {
			t.report(IsCreate, []int{d.response}, "%v does not say that it created the key", d.event)
			continue
		}
		t.report(IsCreate, []int{d.response}, "%v says that it created the key, which existed as of revision %d",
			d.event, prevKV.ModRevision)
	}
}

// prevKV holds a watch to [PrevKV]. A server that has compacted the revision before
// an event has no previous key-value to give; the event comes without then.
func prevKV(t *trace) {
	for d := range t.proper {
		e, got, want := d.event, d.event.Prev, t.ref.previous(d.at)
		switch {
		case !t.watch.Request.PrevKV && got != nil:
			t.report(PrevKV, []int{d.response}, "%v came with a previous key-value that nobody asked for", e)
		case !t.watch.Request.PrevKV:
		case got == nil && want != nil && !t.ref.compactedBeyond(e.ModRevision):
			t.report(PrevKV, []int{d.response}, "%v came without the previous key-value, %s", e, content(*want))
		case got == nil:
		case want == nil:
			t.report(PrevKV, []int{d.response}, "%v came with %s as the previous key-value of a key that did not exist",
				e, content(*got))
		case *got != *want:
			t.report(PrevKV, []int{d.response}, "%v came with %s as the previous key-value, which was %s",
				e, content(*got), content(*want))
		}
	}
}
