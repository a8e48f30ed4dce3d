package health

import "time"

// GoodToServing is how many probes in a row a Slow endpoint must answer in good time
// before it is Serving again. With fewer, an endpoint at the edge would change its state
// at every probe.
const GoodToServing = 3

// Record is the state of one endpoint, with what led to it. The zero value is that of an
// endpoint of which nothing is known.
type Record struct {
	State State
	// Since is when the state began, and Evidence what led to it; the zero values in a
	// Record that was never changed.
	Since    time.Time
	Evidence Evidence
	// Good counts the probes in a row that a Slow endpoint answered in good time.
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

// same reports whether two records differ in nothing but their evidence.
func (r Record) same(o Record) bool { return r.State == o.State && r.Good == o.Good }

// after returns the state that follows from the evidence. The record is not Draining,
// which nothing follows, and its count has been moved.
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

// when returns to if the record is in one of the states, or else its own state.
func (r Record) when(to State, states ...State) State {
	for _, s := range states {
		if r.State == s {
			return to
		}
	}
	return r.State
}

// unless returns to, or the record's own state if that is except.
func (r Record) unless(to, except State) State {
	if r.State == except {
		return r.State
	}
	return to
}
