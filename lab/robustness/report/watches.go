package report

import (
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/quorate/quorate/lab/robustness/history"
)

// noReason is the code of a watch that ended without an error.
const noReason = "no reason given"

// never is the time of what does not happen.
const never = time.Duration(math.MaxInt64)

// reader has what one reader of watches took.
type reader struct {
	scope     history.Scope
	responses []time.Duration
	// delivered is when the reader took the event of a write for the first time, by the name that [history.Written] gives.
	delivered map[history.Key]time.Duration
}

// measureWatches measures what the readers took, and what they did not.
func (r *Recording) measureWatches(s samples) {
	readers := make([]reader, len(r.Watches))
	for i, scope := range history.Scopes(len(readers)) {
		readers[i].scope = scope
	}
	r.measureReaders(readers, s)
}

func (r *Recording) measureReaders(readers []reader, s samples) {
	writes := r.writes()
	for i := range readers {
		readers[i].delivered = map[history.Key]time.Duration{}
		r.read(&readers[i], r.Watches[i], s)
		r.measureSilence(&readers[i], writes)
	}
	r.measureDeliveries(readers, writes)
}

// writes returns the calls that wrote, or may have written, by the names of their events. Where an increment was tried again
// because the outcome of the first is unknown, the one that was acknowledged counts.
func (r *Recording) writes() map[history.Key]*history.Call {
	out := map[history.Key]*history.Call{}
	for i := range r.Calls {
		call := &r.Calls[i]
		if !call.Kind.Writes() || call.Outcome == history.Failed || call.Outcome == history.OK && !call.Wrote() {
			continue
		}
		keys := []history.Key{call.Key}
		if call.Kind == history.Txn {
			keys = append(keys, history.Key{Space: history.Counters, Caller: call.Key.Caller, Seq: call.Want + 1})
		}
		for _, key := range keys {
			if out[key] == nil || call.Outcome == history.OK {
				out[key] = call
			}
		}
	}
	return out
}

// read goes through the watches of a reader, and counts what was repeated and which of them ended.
func (r *Recording) read(reader *reader, watches []history.Watch, s samples) {
	var reached int64
	for _, watch := range watches {
		for _, resp := range watch.Responses {
			reader.responses = append(reader.responses, resp.At)
			row, before := r.rowAt(resp.At), reached
			for _, e := range resp.Events {
				if e.ModRevision <= before && row != nil {
					row.Watches.Repeated++
				}
				reached = max(reached, e.ModRevision)
				key, err := history.Written(r.Prefix, e)
				if _, again := reader.delivered[key]; err == nil && !again { // other events are for the check to report
					reader.delivered[key] = resp.At
				}
			}
		}
		if row := r.rowAt(watch.Ended); row != nil && watch.End == history.EndedByItself {
			code, err := noReason, error(nil)
			if n := len(watch.Responses); n > 0 && watch.Responses[n-1].Err != nil {
				err = watch.Responses[n-1].Err
				code = codeOf(err)
			}
			row.Watches.Ended++
			s.add(&row.Watches.Codes, "watch ", code, err)
		}
	}
}

// measureDeliveries measures how late each write was delivered.
func (r *Recording) measureDeliveries(readers []reader, writes map[history.Key]*history.Call) {
	delays := map[*Row]*hdrhistogram.Histogram{}
	for key, call := range writes {
		row := r.rowAt(call.Start)
		if row == nil {
			continue
		}
		if delays[row] == nil {
			delays[row] = newHistogram()
		}
		began := call.End
		if call.Outcome != history.OK {
			began = firstDelivery(readers, key)
		}
		for i := range readers {
			at, delivered := readers[i].delivered[key]
			switch {
			case delivered:
				delay := max(at-began, 0)
				row.Watches.Delivered++
				row.Watches.DelayMax = max(row.Watches.DelayMax, Duration(delay))
				_ = delays[row].RecordValue(int64(delay)) // of an hour at most
			case call.Outcome == history.OK && readers[i].scope.Includes(key):
				row.Watches.Lost++
			}
		}
	}
	for row, h := range delays {
		row.Watches.DelayP50, row.Watches.DelayP99 = quantiles(h, row.Watches.DelayMax)
	}
}

// firstDelivery returns when a reader took an event before all others.
func firstDelivery(readers []reader, key history.Key) time.Duration {
	first := never
	for i := range readers {
		if at, ok := readers[i].delivered[key]; ok {
			first = min(first, at)
		}
	}
	return first
}

// measureSilence measures for how long a reader took nothing while an acknowledged write was undelivered.
func (r *Recording) measureSilence(reader *reader, writes map[history.Key]*history.Call) {
	var due, done []time.Duration // when the writes that came late were acknowledged, and when they were delivered
	for key, call := range writes {
		if call.Outcome != history.OK || !reader.scope.Includes(key) {
			continue
		}
		at, delivered := reader.delivered[key]
		if !delivered {
			at = never
		}
		if at > call.End {
			due, done = append(due, call.End), append(done, at)
		}
	}
	slices.Sort(due)
	slices.Sort(done)
	undelivered, since := 0, time.Duration(0)
	for _, at := range append(reader.responses, never) {
		for len(due) > 0 && due[0] < at {
			if undelivered == 0 {
				since = max(since, due[0])
			}
			undelivered, due = undelivered+1, due[1:]
		}
		if undelivered > 0 {
			r.silent(since, at)
		}
		since = at
		for len(done) > 0 && done[0] <= at {
			undelivered, done = undelivered-1, done[1:]
		}
	}
}

// silent notes a silence in each row that it is in.
func (r *Recording) silent(from, to time.Duration) {
	for i := range r.Rows {
		row := &r.Rows[i]
		within := min(row.End, Duration(to)) - max(row.Start, Duration(from))
		row.Watches.LongestSilence = max(row.Watches.LongestSilence, within)
	}
}

// resumedWatches returns which readers took an event between a moment and the end of the row.
func (r *Row) resumedWatches(readers [][]history.Watch, since Duration) (out Resumption) {
	for _, watches := range readers {
		if at, ok := firstEvent(watches, time.Duration(since)); ok && r.contains(at) {
			out.Add(at - time.Duration(since))
		}
	}
	return out
}

// firstEvent returns when a reader took the first event after a moment.
func firstEvent(watches []history.Watch, since time.Duration) (at time.Duration, ok bool) {
	for _, watch := range watches {
		for _, resp := range watch.Responses {
			if resp.At >= since && len(resp.Events) > 0 {
				return resp.At, true
			}
		}
	}
	return 0, false
}
