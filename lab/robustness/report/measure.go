package report

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/lab/robustness/history"
)

// Measure fills in the figures of the rows, which must have ended.
func (r *Recording) Measure() {
	slices.SortStableFunc(r.Calls, func(a, b Call) int { return cmp.Compare(a.Return, b.Return) })
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Fault > 0 && row.Heal == 0 {
			row.Heal = row.End // it was not healed
		}
		row.measureCalls(r.Calls, r.Errors)
	}
	r.measureWatches()
	r.measureOutside()
}

// codeOf names the gRPC code of an error, those of etcd and of contexts included.
func codeOf(err error) string {
	var coded interface{ Code() codes.Code }
	if errors.As(err, &coded) {
		return coded.Code().String()
	}
	if s, ok := status.FromError(err); ok {
		return s.Code().String()
	}
	return status.FromContextError(err).Code().String()
}

// measureCalls measures the calls, which are in the order of their ends. Abandoned ones count nowhere.
func (r *Row) measureCalls(calls []Call, errs Errors) {
	var latencies [history.NumKinds]*hdrhistogram.Histogram
	var completed [history.NumKinds]Duration // when a call was completed last, or the row began
	for k := range r.Calls {
		r.Calls[k].Kind = history.Kind(k)
		// Up to an hour. The quantiles are at most 0.1 % too high, never too low.
		latencies[k], completed[k] = hdrhistogram.New(1, int64(time.Hour), 3), r.Start
	}
	for i := range calls {
		call := &calls[i]
		c, end := &r.Calls[call.Kind], Duration(call.Return)
		if call.Outcome == history.OK && r.contains(call.Return) {
			c.LongestGap = max(c.LongestGap, end-completed[call.Kind])
			completed[call.Kind] = end
			if r.Fault > 0 && end >= r.Fault && end < r.Heal {
				c.Held++
			}
		}
		if call.Outcome != history.Abandoned && r.contains(call.Call) {
			c.count(call, errs)
			_ = latencies[call.Kind].RecordValue(int64(call.Return - call.Call)) // no call takes an hour
		}
	}
	for k := range r.Calls {
		c := &r.Calls[k]
		c.LongestGap = max(c.LongestGap, r.End-completed[k])
		c.P50 = min(Duration(latencies[k].ValueAtPercentile(50)), c.Max)
		c.P99 = min(Duration(latencies[k].ValueAtPercentile(99)), c.Max)
	}
}

func (c *Calls) count(call *Call, errs Errors) {
	switch call.Outcome {
	case history.OK:
		c.Completed++
	case history.Unknown:
		c.Unknown++
	default:
		c.Errors++
	}
	if call.Outcome != history.OK {
		errs.add(codeOf(call.Failure), call.Failure)
	}
	c.Max = max(c.Max, Duration(call.Return-call.Call))
}

// noReason is the code of a watch that ended without an error.
const noReason = "no reason given"

// change identifies an event: no two events of a load have the same.
type change struct{ key, value string }

// measureWatches measures what the readers took, and counts the watches that ended.
func (r *Recording) measureWatches() {
	writes := map[change]*Call{}
	for i := range r.Calls {
		for _, written := range r.Calls[i].changes() {
			writes[written] = &r.Calls[i]
		}
	}
	for _, watches := range r.Readers {
		taken := map[change]bool{}
		for _, watch := range watches {
			for _, resp := range watch.Responses {
				for _, e := range resp.Events {
					if id := (change{e.Key, e.Value}); writes[id] != nil && !taken[id] {
						taken[id] = true
						r.delivered(writes[id], resp.At)
					}
				}
			}
			if watch.End == history.EndedByItself && r.rowAt(watch.Ended) != nil {
				code, err := noReason, watch.Err()
				if err != nil {
					code = codeOf(err)
				}
				r.Errors.add("watch "+code, err)
			}
		}
	}
}

// delivered counts the delivery of an event of a write to a reader.
func (r *Recording) delivered(write *Call, at time.Duration) {
	row := r.rowAt(write.Call)
	if row == nil {
		return
	}
	row.Events++
	if write.Outcome == history.OK {
		row.EventDelay = max(row.EventDelay, Duration(at-write.Return))
	}
}

// measureOutside measures how late the events of the writes past the links were. The delivery of a later event counts for
// an earlier one; what was never delivered counts as late as the end.
func (r *Recording) measureOutside() {
	if len(r.Rows) == 0 {
		return
	}
	delivered := time.Duration(r.Rows[len(r.Rows)-1].End)
	for _, w := range slices.Backward(r.Outside) {
		if w.Delivered > 0 {
			delivered = min(delivered, w.Delivered)
		}
		if row := r.rowAt(w.Acknowledged); row != nil && w.Acknowledged > 0 {
			row.OutsideDelay = max(row.OutsideDelay, Duration(delivered-w.Acknowledged))
		}
	}
}

// rowAt returns the row that a moment is in, nil if there is none.
func (r *Recording) rowAt(at time.Duration) *Row {
	i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.contains(at) })
	if i < 0 {
		return nil
	}
	return &r.Rows[i]
}
