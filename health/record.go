package health

import "time"

// GoodToServing is how many consecutive probes a Slow endpoint must answer in time to
// become Serving. With fewer, an endpoint near the limit would change its state at every
// probe.
const GoodToServing = 3

// Record is the state of one endpoint, with the evidence that led to it. The zero value
// is an endpoint without evidence.
type Record struct {
	State State
	// Since is when the state began, and Evidence what led to it; zero values in a new
	// Record.
	Since    time.Time
	Evidence Evidence
	// Good counts the consecutive probes that a Slow endpoint answered in time.
	Good int
}

// Next returns the record after a piece of evidence. It is a pure function; the package
// documentation has it as a table.
func (r Record) Next(e Evidence) Record {
	if r.State == Draining {
		return r
	}
	next := r
	switch {
	case e.Kind == Late:
		next.Good = 0
	case e.Kind == Served && r.State == Slow:
		next.Good++
	}
	to := next.after(e.Kind)
	if to == r.State {
		return next
	}
	next.State, next.Since, next.Evidence, next.Good = to, e.At, e, 0
	return next
}

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
		if r.State == Slow && r.Good < GoodToServing {
			return Slow
		}
		return Serving
	case Suspicious:
		return r.when(Suspected, Unknown, Serving)
	case Late:
		return Slow
	case Stalled:
		return r.when(Lagging, Unknown, Serving, Suspected, Slow, Dead)
	case Degrading:
		return r.unless(Degraded, Restricted)
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
	for _, s := range states {
		if r.State == s {
			return to
		}
	}
	return r.State
}

// unless returns to, or the record's state if that is except.
func (r Record) unless(to, except State) State {
	if r.State == except {
		return r.State
	}
	return to
}
