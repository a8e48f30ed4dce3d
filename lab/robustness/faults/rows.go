package faults

import (
	"slices"
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// kinds are the kinds of call that a load makes.
var kinds = []model.Kind{model.Get, model.SerializableGet, model.Put, model.Txn}

// Row has the figures of one stretch of a run: the healthy one, or that of a fault.
//
// A call belongs to the row in which it was invoked, whenever it ended, so that a fault answers for the calls that met it. A
// gap belongs to the row in which it happened. An event belongs to the row in which its write was invoked, for the same
// reason. The loss of a lease belongs to the row in which its keeper learnt of it.
type Row struct {
	// Name is "healthy" or that of the fault.
	Name       string
	Start, End time.Duration
	// Fault is when the injection of the fault began, and Heal when its healing did; 0 without one.
	Fault, Heal time.Duration
	// Calls has the figures of each kind of call.
	Calls map[model.Kind]Calls
	// EventDelay is how late an event was at most: the time from the acknowledgement of the write to the moment at which the
	// reader took the event. The event of a write with an unknown outcome has no delay, because that write was never
	// acknowledged.
	EventDelay time.Duration
	// LeasesLost counts the leases whose keepalive the client ended.
	LeasesLost int
}

// contains reports whether a moment is in the row.
func (r *Row) contains(at time.Duration) bool { return at >= r.Start && at < r.End }

// Calls has the figures of one kind of call.
type Calls struct {
	// Completed, Errors and Unknown count the calls that were answered, that failed, and that were writes and may or may not
	// have been executed.
	Completed, Errors, Unknown int
	// Held counts the calls that were completed between injection and healing, whenever they were invoked.
	Held int
	// LongestGap is the longest time in which no call was completed.
	LongestGap time.Duration
	// Max is how long a caller waited at most for the end of a call, whatever the outcome.
	Max time.Duration
}

// call is a call that has ended.
type call struct {
	model.Operation
	group group
	// failure is the error that it ended with.
	failure error
}

// measure returns the rows, which must have ended, with their figures. Calls are in the order of their ends.
func measure(rows []Row, calls []call, watches []history.Watch, leases []*lease) []Row {
	for i := range rows {
		row := &rows[i]
		if row.Fault > 0 && row.Heal == 0 {
			row.Heal = row.End // it was not healed
		}
		row.Calls = map[model.Kind]Calls{}
		for _, kind := range kinds {
			row.Calls[kind] = row.measure(kind, calls)
		}
		for _, l := range leases {
			if l.lost > 0 && row.contains(l.lost) {
				row.LeasesLost++
			}
		}
	}
	measureWatches(rows, calls, watches)
	return rows
}

// measure measures the calls of a kind.
func (r *Row) measure(kind model.Kind, calls []call) (c Calls) {
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
			c.count(call)
		}
	}
	c.LongestGap = max(c.LongestGap, r.End-completed)
	return c
}

func (c *Calls) count(call *call) {
	switch call.Outcome {
	case history.OK:
		c.Completed++
	case history.Unknown:
		c.Unknown++
	default:
		c.Errors++
	}
	c.Max = max(c.Max, call.Return-call.Call)
}

// measureWatches measures how late events were.
func measureWatches(rows []Row, calls []call, watches []history.Watch) {
	acknowledged := map[string]*call{} // writes by value: no two calls write the same
	for i := range calls {
		if c := &calls[i]; c.Outcome == history.OK && c.Response.Succeeded {
			for _, act := range c.Request.Then {
				if act.Verb == model.Write {
					acknowledged[act.Value] = c
				}
			}
		}
	}
	for _, watch := range watches {
		for _, resp := range watch.Responses {
			for _, e := range resp.Events {
				write := acknowledged[e.Value]
				if write == nil {
					continue
				}
				if i := slices.IndexFunc(rows, func(row Row) bool { return row.contains(write.Call) }); i >= 0 {
					rows[i].EventDelay = max(rows[i].EventDelay, resp.At-write.Return)
				}
			}
		}
	}
}
