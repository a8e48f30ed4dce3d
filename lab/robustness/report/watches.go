package report

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/quorate/quorate/lab/robustness/history"
)

// noReason is the code of a watch that ended without an error.
const noReason = "no reason given"

// change is what names an event: no two that a load makes have the same.
type change struct{ key, value string }

// deliveries has when a reader took an event for the first time.
type deliveries map[change]time.Duration

// measureWatches measures what the readers took, and what they did not.
func (r *Recording) measureWatches(s Samples) {
	taken := make([]deliveries, len(r.Readers))
	for i := range taken {
		taken[i] = r.read(r.Readers[i].Watches, s)
	}
	delays := map[*Row]*hdrhistogram.Histogram{}
	for i := range r.Calls {
		call := &r.Calls[i]
		row := r.rowAt(call.Call)
		if row == nil {
			continue
		}
		if delays[row] == nil {
			delays[row] = newHistogram()
		}
		for _, written := range call.changes() {
			began := call.Return
			if call.Outcome != history.OK {
				began = first(taken, written)
			}
			for i := range taken {
				at, delivered := taken[i][written]
				switch {
				case delivered:
					delay := max(at-began, 0)
					row.Watches.Delivered++
					row.Watches.DelayMax = max(row.Watches.DelayMax, Duration(delay))
					_ = delays[row].RecordValue(int64(delay)) // of an hour at most
				case call.Outcome == history.OK && r.Readers[i].Request.Covers(written.key):
					row.Watches.Lost++
				}
			}
		}
	}
	for row, h := range delays {
		row.Watches.DelayP50, row.Watches.DelayP99 = quantiles(h, row.Watches.DelayMax)
	}
}

// read goes through the watches of a reader, and counts what was repeated and which of them ended.
func (r *Recording) read(watches []history.Watch, s Samples) deliveries {
	taken := deliveries{}
	var reached int64
	for _, watch := range watches {
		for _, resp := range watch.Responses {
			row, before := r.rowAt(resp.At), reached
			for _, e := range resp.Events {
				if e.ModRevision <= before && row != nil {
					row.Watches.Repeated++
				}
				reached = max(reached, e.ModRevision)
				if _, again := taken[change{e.Key, e.Value}]; !again {
					taken[change{e.Key, e.Value}] = resp.At
				}
			}
		}
		if row := r.rowAt(watch.Ended); row != nil && watch.End == history.EndedByItself {
			code, text := noReason, ""
			if n := len(watch.Responses); n > 0 && watch.Responses[n-1].Err != nil {
				err := watch.Responses[n-1].Err
				code, text = CodeOf(err), err.Error()
			}
			row.Watches.Ended++
			s.add(&row.Watches.Codes, "watch ", code, text)
		}
	}
	return taken
}

// first returns when a reader took an event before all others.
func first(taken []deliveries, written change) time.Duration {
	earliest := time.Duration(math.MaxInt64)
	for _, d := range taken {
		if at, ok := d[written]; ok {
			earliest = min(earliest, at)
		}
	}
	return earliest
}
