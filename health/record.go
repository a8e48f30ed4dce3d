package health

import "time"

const (
	// MissesToDead is how many probes in a row must go unanswered before an endpoint is
	// Dead. One can be lost to a pause of either side's garbage collector or scheduler;
	// at 250 ms each, two keep detection below a second.
	MissesToDead = 2
	// GoodToServing is how many probes in a row a Slow endpoint must answer in good time
	// before it is Serving again. An endpoint at the edge would otherwise change its
	// state, and with it the way of every call, at every probe.
	GoodToServing = 3
)

// Record is the state of one endpoint, with what led to it. The zero value is that of an
// endpoint of which nothing is known.
type Record struct {
	State State
	// Since is when the state began, and Evidence what led to it; the zero values in a
	// Record that was never changed.
	Since    time.Time
	Evidence Evidence
	// Misses counts the probes that were not answered since the last answer.
	Misses int
	// Good counts the probes in a row that a Slow endpoint answered in good time.
	Good int
}

// Next returns the record after a piece of evidence. It is a pure function; the package
// documentation has it as a table.
func (r Record) Next(e Evidence) Record {
	if r.State == Draining {
		return r
	}
	next := r.counted(e.Kind)
	to := next.after(e.Kind)
	if to == r.State {
		return next
	}
	next.State, next.Since, next.Evidence, next.Good = to, e.At, e, 0
	if to == Dead {
		next.Misses = 0
	}
	return next
}

// same reports whether nothing but the identity of the evidence distinguishes two records.
func (r Record) same(o Record) bool {
	return r.State == o.State && r.Misses == o.Misses && r.Good == o.Good
}

// counted returns the record with its counters moved by the evidence.
func (r Record) counted(k Kind) Record {
	switch k {
	case Missed:
		r.Good = 0
		if r.State != Dead {
			r.Misses++
		}
	case Served:
		r.Misses = 0
		if r.State == Slow {
			r.Good++
		}
	case Late:
		r.Misses, r.Good = 0, 0
	case Answered, Stalled, Leaderless, NonVoting, Refusing, Disconnected, ConnectFailed:
		r.Misses = 0
	case Connected, Silent, Removed:
	}
	return r
}

// after returns the state that follows from the evidence, with the counters moved
// already. The record is not Draining, which nothing follows.
func (r Record) after(k Kind) State {
	switch k {
	case Disconnected:
		return r.when(Unknown, Suspected)
	case ConnectFailed:
		return Dead
	case Answered:
		return r.when(Serving, Unknown)
	case Served:
		if r.State == Slow && r.Good < GoodToServing {
			return Slow
		}
		return Serving
	case Silent:
		return r.when(Suspected, Unknown, Serving)
	case Missed:
		if r.Misses >= MissesToDead {
			return Dead
		}
		return r.when(Suspected, Unknown, Serving)
	case Late:
		return Slow
	case Stalled:
		return r.when(Lagging, Unknown, Serving, Suspected, Slow, Dead)
	case Leaderless:
		if r.State == Learner {
			return Learner
		}
		return NoLeader
	case NonVoting:
		return Learner
	case Refusing:
		return NotServing
	case Removed:
		return Draining
	case Connected:
	}
	return r.State
}

// when returns to if the record is in one of the states, or else the state it is in.
func (r Record) when(to State, states ...State) State {
	for _, s := range states {
		if r.State == s {
			return to
		}
	}
	return r.State
}
