package measure

import (
	"slices"
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
)

// written returns the keys that a call writes if it is executed, as
// [history.Written] names them.
func written(call history.Call) []history.Key {
	switch call.Kind {
	case history.Put:
		return []history.Key{call.Key}
	case history.Txn:
		counter := history.CounterOf(call.Key.Caller)
		counter.Seq = call.Want + 1
		return []history.Key{counter, call.Key}
	default:
		return nil
	}
}

// watches matches writes with their deliveries.
type watches struct {
	subscribers []subscriber
	// writes holds those that have not been delivered by every watch that is to
	// deliver them. One that never returned to its caller, and was not executed, stays.
	writes map[history.Key]*write
}

// subscriber is a watch that delivers the events of a scope.
type subscriber struct {
	scope history.Scope
	// undelivered counts the acknowledged changes that it has not delivered, and since is
	// when one became undelivered or something was delivered last, whichever was later.
	undelivered int64
	since       time.Duration
}

// write is a change of one key.
type write struct {
	row        *row
	start, end time.Duration // end counts once it is acknowledged
	returned   bool          // the call has returned
	confirmed  bool          // the caller knows that it was executed
	doubtful   bool          // an invocation of it ended with an unknown outcome
	deliveries []delivery
	counted    int // deliveries that were counted
}

// delivery is when a watch delivered a write.
type delivery struct {
	watch int
	at    time.Duration
}

// newWatches returns watches of the given scopes without undelivered changes.
func newWatches(scopes []history.Scope) watches {
	w := watches{subscribers: make([]subscriber, len(scopes)), writes: map[history.Key]*write{}}
	for i, s := range scopes {
		w.subscribers[i].scope = s
	}
	return w
}

// invoke notes that a key is about to be written. A counter may be set to the same
// value by a second call when the outcome of the first is unknown.
func (w *watches) invoke(key history.Key, r *row, at time.Duration) {
	if again := w.writes[key]; again != nil {
		again.returned = false
		return
	}
	if len(w.subscribers) > 0 {
		w.writes[key] = &write{row: r, start: at}
	}
}

// settle records how a write returned.
func (w *watches) settle(call history.Call, r *row) {
	for _, key := range written(call) {
		wr := w.writes[key]
		if wr == nil {
			continue
		}
		wr.returned = true
		switch {
		case call.Outcome == history.OK && (call.Kind == history.Put || call.Applied):
			wr.row, wr.confirmed, wr.start, wr.end = r, true, call.Start, call.End
			w.expect(key, wr)
		case call.Outcome == history.Unknown || call.Outcome == history.Abandoned:
			wr.doubtful = true
		}
		if !wr.confirmed && !wr.doubtful {
			delete(w.writes, key)
			continue
		}
		wr.count()
		w.forget(key, wr)
	}
}

// expect makes every watch that has not delivered an acknowledged write have it to deliver.
func (w *watches) expect(key history.Key, wr *write) {
	for i := range w.subscribers {
		d := &w.subscribers[i]
		if !d.scope.Includes(key) || wr.deliveredBy(i) {
			continue
		}
		if d.undelivered == 0 {
			d.since = max(d.since, wr.end)
		}
		d.undelivered++
	}
}

// deliver notes that a watch delivered something, and returns how long it had been
// silent with something undelivered.
func (w *watches) deliver(watch int, keys []history.Key, at time.Duration) (silence time.Duration) {
	d := &w.subscribers[watch]
	if d.undelivered > 0 {
		silence = at - d.since
	}
	d.since = at
	for _, key := range keys {
		wr := w.writes[key]
		if wr == nil || wr.deliveredBy(watch) {
			continue
		}
		wr.deliveries = append(wr.deliveries, delivery{watch, at})
		wr.count()
		if wr.confirmed {
			d.undelivered--
		}
		w.forget(key, wr)
	}
	return silence
}

// forget drops a write that has been delivered by all, once it has returned.
func (w *watches) forget(key history.Key, wr *write) {
	if !wr.returned {
		return
	}
	for i := range w.subscribers {
		if w.subscribers[i].scope.Includes(key) && !wr.deliveredBy(i) {
			return
		}
	}
	delete(w.writes, key)
}

// begin makes silences begin anew, with a row.
func (w *watches) begin(at time.Duration) {
	for i := range w.subscribers {
		w.subscribers[i].since = max(w.subscribers[i].since, at)
	}
}

// silence returns the longest silence of a watch with something undelivered.
func (w *watches) silence(now time.Duration) time.Duration {
	var longest time.Duration
	for _, d := range w.subscribers {
		if d.undelivered > 0 {
			longest = max(longest, now-d.since)
		}
	}
	return longest
}

// undelivered counts what was not delivered by the row that it belongs to.
func (w *watches) undelivered() map[*row]int64 {
	undelivered := map[*row]int64{}
	for key, wr := range w.writes {
		if !wr.confirmed {
			continue
		}
		for i, d := range w.subscribers {
			if d.scope.Includes(key) && !wr.deliveredBy(i) {
				undelivered[wr.row]++
			}
		}
	}
	return undelivered
}

func (wr *write) deliveredBy(watch int) bool {
	return slices.ContainsFunc(wr.deliveries, func(d delivery) bool { return d.watch == watch })
}

// count counts the deliveries that have not been counted, as soon as it is known
// what their delay counts from. When a write with an unknown outcome was executed
// is not known: it may have waited in a stopped member for all of the fault.
// The first watch that delivers it shows that it was.
func (wr *write) count() {
	if !wr.returned || len(wr.deliveries) == 0 {
		return
	}
	began := wr.deliveries[0].at
	if wr.confirmed {
		began = wr.end
	}
	for _, d := range wr.deliveries[wr.counted:] {
		wr.row.watches.stats.Delivered++
		wr.row.watches.delays.add(d.at - began)
	}
	wr.counted = len(wr.deliveries)
}
