package watch

import "go.etcd.io/etcd/api/v3/mvccpb"

// extent describes the events of a response.
type extent struct {
	first, last int64 // revisions
	revisions   int64 // that have events
	bytes       int
}

func extentOf(events []*mvccpb.Event) (x extent) {
	x.add(events)
	return x
}

func (x *extent) add(events []*mvccpb.Event) {
	for _, ev := range events {
		rev := ev.GetKv().GetModRevision()
		if x.revisions == 0 {
			x.first = rev
		}
		if x.revisions == 0 || rev != x.last {
			x.revisions++
		}
		x.last = rev
		x.bytes += eventSize(ev)
	}
}

// span returns the number of revisions, with and without events.
func (x *extent) span() int64 { return x.last - x.first + 1 }

// ahead estimates, from the density so far, how many revisions with events follow until the
// store's revision.
func (x *extent) ahead(head int64) int64 {
	if x.span() <= 0 || head <= x.last {
		return 0
	}
	return x.revisions * (head - x.last) / x.span()
}

// bytesAhead estimates how many bytes follow in the same response until the store's
// revision.
func (x *extent) bytesAhead(head int64) int {
	if x.revisions == 0 {
		return 0
	}
	return int(min(x.ahead(head), fullBatch-x.revisions)) * (x.bytes / int(x.revisions))
}
