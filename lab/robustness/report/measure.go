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

// Measure fills in the figures of calls and watches of the rows, which must have ended.
func (r *Recording) Measure() {
	slices.SortStableFunc(r.Calls, func(a, b Call) int { return cmp.Compare(a.Return, b.Return) })
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Fault > 0 && row.Heal == 0 {
			row.Heal = row.End // it was not healed
		}
		row.measureCalls(r.Calls, r.Samples)
	}
	r.measureWatches(r.Samples)
	r.measureOutside()
}

// Samples has the first error text of each code. The codes of watches have "watch " before them, those of leases "lease ".
type Samples map[string]string

// add counts a code, and keeps the first text that comes with it.
func (s Samples) add(counts *map[string]int64, of, code, text string) {
	if *counts == nil {
		*counts = map[string]int64{}
	}
	(*counts)[code]++
	if text != "" && s[of+code] == "" {
		s[of+code] = text
	}
}

// textOf returns the text of an error, if there is one.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// CodeOf names the gRPC code of an error, those of etcd and of contexts included.
func CodeOf(err error) string {
	var coded interface{ Code() codes.Code }
	if errors.As(err, &coded) {
		return coded.Code().String()
	}
	if s, ok := status.FromError(err); ok {
		return s.Code().String()
	}
	return status.FromContextError(err).Code().String()
}

// newHistogram returns a histogram of durations up to an hour. Its quantiles are at most 0.1 % too high, never too low.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Hour), 3) }

// quantiles returns the median and the 99th percentile of a histogram, and at most the given maximum.
func quantiles(h *hdrhistogram.Histogram, most Duration) (p50, p99 Duration) {
	return min(Duration(h.ValueAtPercentile(50)), most), min(Duration(h.ValueAtPercentile(99)), most)
}

// measureCalls measures the calls, which are in the order of their ends. Abandoned ones count nowhere.
func (r *Row) measureCalls(calls []Call, s Samples) {
	var latencies [history.NumKinds]*hdrhistogram.Histogram
	var completed [history.NumKinds]Duration // when a call was completed last, or the row began
	for k := range r.Calls {
		r.Calls[k].Kind = history.Kind(k)
		latencies[k], completed[k] = newHistogram(), r.Start
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
			c.count(call, s)
			_ = latencies[call.Kind].RecordValue(int64(call.Return - call.Call)) // no call takes an hour
		}
	}
	for k := range r.Calls {
		c := &r.Calls[k]
		c.LongestGap = max(c.LongestGap, r.End-completed[k])
		c.P50, c.P99 = quantiles(latencies[k], c.Max)
	}
}

func (c *Calls) count(call *Call, s Samples) {
	switch call.Outcome {
	case history.OK:
		c.Completed++
	case history.Unknown:
		c.Unknown++
	default:
		c.Errors++
	}
	if call.Outcome != history.OK {
		s.add(&c.Codes, "", call.Code, call.Err)
	}
	c.Max = max(c.Max, Duration(call.Return-call.Call))
}

// ended returns how many calls there were.
func (c *Calls) ended() int64 { return c.Completed + c.Errors + c.Unknown }

// measureOutside measures how late the events of the writes past the links were. The delivery of a later one will do, and
// what was not delivered counts until the end.
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
