package watchcheck

// unique holds a watch to [Unique].
func unique(t *trace) {
	came := map[moment]int{}
	for _, d := range t.deliveries {
		id := moment{d.event.ModRevision, d.event.Key}
		if d.repeated {
			t.report(Unique, []int{came[id], d.response}, "%v came again", d.event)
			continue
		}
		came[id] = d.response
	}
}

// ordered holds a watch to [Ordered]. Only an event that is late counts, not the
// one which overtook it.
func ordered(t *trace) {
	var newest *delivery
	for d := range t.proper {
		switch {
		case newest == nil || d.at > newest.at:
			newest = d
		case d.event.ModRevision == newest.event.ModRevision:
			t.report(Ordered, []int{newest.response, d.response},
				"%v came after that of %s, which the txn changed later", d.event, newest.event.Key)
		default:
			t.report(Ordered, []int{newest.response, d.response}, "%v came after revision %d",
				d.event, newest.event.ModRevision)
		}
	}
}

// atomic holds a watch to [Atomic]. A revision of which the rest never came is not
// split but incomplete, see [Reliable].
func atomic(t *trace) {
	came := map[int64]int{}
	for d := range t.proper {
		revision := d.event.ModRevision
		response, ok := came[revision]
		if ok && response != d.response {
			t.report(Atomic, []int{response, d.response}, "revision %d is split: %s came in a later response",
				revision, d.event.Key)
		}
		came[revision] = d.response
	}
}
