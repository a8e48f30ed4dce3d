package health

import (
	"slices"
	"time"
)

// GoodToServing is how many consecutive probes or calls a Slow endpoint, or one many of whose calls
// failed, must answer in time to become Serving. With fewer, an endpoint near the limit would change its
// state at every probe. The number doubles with each relapse within a minute, up to 24.
const GoodToServing = 3

const maxRelapseShift = 3

// After a verdict, an endpoint that serves again gets writes after readmissionWait. The wait doubles with each
// further verdict, up to maxReadmissionWait. A verdict is forgotten when the endpoint has been trusted for
// verdictMemory.
const (
	readmissionWait    = 4 * time.Second
	maxReadmissionWait = 30 * time.Second
	verdictMemory      = time.Minute
)

// Record is the state of one endpoint, with the evidence that led to it. The zero value
// is an endpoint without evidence.
type Record struct {
	State State
	// Since is when the state began, and Evidence what led to it; zero values in a new
	// Record.
	Since    time.Time
	Evidence Evidence
	// Good counts the consecutive probes and calls that an endpoint answered in time while it was Slow, or
	// Suspected because many of its calls failed.
	Good int
	// Ejections counts how often it recently became Slow or Suspected because of many calls, and
	// GoodFrom is when it last served again after that.
	Ejections int
	GoodFrom  time.Time
	// Verdicts counts the recent verdicts, Stalled or Unresponsive. UnderVerdict is set from a
	// verdict until the endpoint is Serving again. WritesFrom is when writes no longer prefer
	// other endpoints, the zero time if there was no verdict.
	Verdicts     int
	UnderVerdict bool
	WritesFrom   time.Time
}

// Next returns the record after a piece of evidence. It is a pure function; the package
// documentation has it as a table.
func (r Record) Next(e Evidence) Record {
	if r.State == Draining {
		return r
	}
	next := r
	switch {
	case e.Kind == Late, e.Often:
		next.Good = 0
	case e.Kind == Served && r.counts():
		next.Good++
	}
	to := next.after(e.Kind)
	if to == r.State {
		return next
	}
	next.State, next.Since, next.Evidence, next.Good = to, e.At, e, 0
	switch isVerdict := e.Kind == Stalled || e.Kind == Unresponsive; {
	case isVerdict && !r.UnderVerdict:
		next.UnderVerdict = true
		if e.At.Sub(r.WritesFrom) > verdictMemory {
			next.Verdicts = 0
		}
		next.Verdicts++
	case to == Serving && r.UnderVerdict:
		next.UnderVerdict, next.WritesFrom = false, e.At.Add(writesAfter(next.Verdicts))
	}
	switch {
	case e.Often && e.At.Sub(r.GoodFrom) > verdictMemory:
		next.Ejections = 1
	case e.Often:
		next.Ejections++
	case to == Serving && r.counts():
		next.GoodFrom = e.At
	}
	return next
}

// writesAfter returns how long writes prefer other endpoints after the latest of a number of recent verdicts,
// at least 1.
func writesAfter(verdicts int) time.Duration {
	return min(readmissionWait<<min(verdicts-1, 8), maxReadmissionWait)
}

// counts reports whether it takes several pieces of evidence to end the state.
func (r Record) counts() bool { return r.State == Slow || r.State == Suspected && r.Evidence.Often }

// same reports whether two records differ only in their evidence.
func (r Record) same(o Record) bool { return r.State == o.State && r.Good == o.Good }

// after returns the state after the evidence. The record is not Draining, which is final,
// and its count is already updated.
func (r Record) after(k Kind) State {
	switch k {
	case Disconnected:
		return r.when(Unknown, Suspected)
	case ConnectFailed, Unresponsive:
		return Dead
	case Answered:
		return r.when(Serving, Unknown)
	case Served:
		if r.counts() && r.Good < GoodToServing<<min(max(r.Ejections-1, 0), maxRelapseShift) {
			return r.State
		}
		return Serving
	case Suspicious:
		return r.when(Suspected, Unknown, Serving)
	case Late:
		return Slow
	case Stalled:
		return r.when(Lagging, Unknown, Serving, Suspected, Slow, Dead)
	case Degrading:
		if r.State == Restricted {
			return Restricted
		}
		return Degraded
	case Restricting:
		return Restricted
	case Refusing:
		return NotServing
	case Removed:
		return Draining
	case Connected:
	}
	return r.State
}

// when returns to if the record is in one of the states, else the record's state.
func (r Record) when(to State, states ...State) State {
	if slices.Contains(states, r.State) {
		return to
	}
	return r.State
}
