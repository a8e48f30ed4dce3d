package report

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// Recording is what was done in a run, and what its callers, readers and keepers saw. All times count from its beginning.
type Recording struct {
	// Rows in the order in which they happened, one directly behind the other. [Recording.Measure] fills in their figures.
	Rows []Row
	// Calls that have ended.
	Calls []Call
	// Watches of all readers.
	Watches []history.Watch
	// Errors has those of all rows.
	Errors Errors
}

// Call is a call that has ended.
type Call struct {
	model.Operation
	// Keys of the operation. Calls of one group have the same pointer.
	Keys *[model.Keys]string
	// Failure is the error that it ended with.
	Failure error
}

// Current returns the row in progress, nil if there is none.
func (r *Recording) Current() *Row {
	if n := len(r.Rows); n > 0 && r.Rows[n-1].End == 0 {
		return &r.Rows[n-1]
	}
	return nil
}

// LeaseEnded records that a keeper lost its lease, or failed to get one, with the error if there is one.
func (r *Recording) LeaseEnded(lost bool, err error) {
	row := r.Current()
	switch {
	case row == nil:
	case lost:
		row.LeasesLost++
		r.Errors.add("lease keepalive ended", err)
	default:
		r.Errors.add("lease "+codeOf(err), err)
	}
}

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

// measureCalls measures the calls, which are in the order of their ends.
func (r *Row) measureCalls(calls []Call, errs Errors) {
	r.Calls = map[model.Kind]Calls{}
	for _, kind := range Kinds {
		var c Calls
		completed := r.Start // when a call was completed last, or the row began
		for i := range calls {
			call := &calls[i]
			if call.Request.Kind != kind {
				continue
			}
			if end := call.Return; call.Outcome == history.OK && r.contains(end) {
				c.LongestGap = max(c.LongestGap, end-completed)
				completed = end
				if r.Fault > 0 && end >= r.Fault && end < r.Heal {
					c.Held++
				}
			}
			if r.contains(call.Call) {
				c.count(call, errs)
			}
		}
		c.LongestGap = max(c.LongestGap, r.End-completed)
		r.Calls[kind] = c
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
	c.Max = max(c.Max, call.Return-call.Call)
}

// noReason is the code of a watch that ended without an error.
const noReason = "no reason given"

// change identifies an event: no two calls of a load write the same.
type change struct{ key, value string }

// measureWatches measures how late events were, and counts the watches that ended.
func (r *Recording) measureWatches() {
	writes := map[change]*Call{} // that were acknowledged
	for i := range r.Calls {
		call := &r.Calls[i]
		if call.Outcome != history.OK || !call.Response.Succeeded {
			continue
		}
		for _, act := range call.Request.Then {
			if act.Verb == model.Write {
				writes[change{call.Keys[act.Key], act.Value}] = call
			}
		}
	}
	for _, watch := range r.Watches {
		for _, resp := range watch.Responses {
			for _, e := range resp.Events {
				write := writes[change{e.Key, e.Value}]
				if write == nil {
					continue
				}
				if row := r.rowAt(write.Call); row != nil {
					row.EventDelay = max(row.EventDelay, resp.At-write.Return)
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

// rowAt returns the row that a moment is in, nil if there is none.
func (r *Recording) rowAt(at time.Duration) *Row {
	i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.contains(at) })
	if i < 0 {
		return nil
	}
	return &r.Rows[i]
}
