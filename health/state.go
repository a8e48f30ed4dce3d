package health

import (
	"fmt"
	"time"
)

// State is the health of an endpoint. The zero value is Unknown.
type State uint8

const (
	// Unknown endpoints have not answered yet.
	Unknown State = iota
	// Serving endpoints answer.
	Serving
	// Suspected endpoints are silent for longer than usual, or answered with an error that
	// suggests a fault. They are probed, and others are preferred meanwhile.
	Suspected
	// Slow endpoints answer much later than the others do.
	Slow
	// Lagging endpoints are alive but complete nothing while others do: for example a
	// member partitioned from its peers, or one that defragments its store.
	Lagging
	// Degraded endpoints report that they can serve local calls only, for now: an etcd
	// member without a leader.
	Degraded
	// Restricted endpoints report that their role lets them serve local calls only: an
	// etcd learner.
	Restricted
	// NotServing endpoints report that they do not serve.
	NotServing
	// Draining endpoints were removed from the client. Calls on them may finish.
	Draining
	// Dead endpoints cannot be reached, or answer nothing. A new connection does not end
	// the state; a served call or probe does.
	Dead

	states = int(Dead) + 1
)

var stateNames = [states]string{
	Unknown: "unknown", Serving: "serving", Suspected: "suspected", Slow: "slow", Lagging: "lagging",
	Degraded: "degraded", Restricted: "restricted", NotServing: "not serving", Draining: "draining", Dead: "dead",
}

// String returns the state's name: "unknown", "serving", "suspected", "slow", "lagging",
// "degraded", "restricted", "not serving", "draining" or "dead".
func (s State) String() string {
	if int(s) < states {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// MarshalText returns the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Usable reports whether endpoints in the state serve calls of every kind.
func (s State) Usable() bool { return s <= Slow }

// service ranks the states by what an endpoint can serve.
func (s State) service() int {
	switch s {
	case NotServing, Draining, Dead:
		return 0
	case Degraded, Restricted, Lagging:
		return 1
	case Suspected, Slow:
		return 2
	default:
		return 3
	}
}

// Status is a snapshot of one endpoint's health. It must not be modified.
type Status struct {
	// Endpoint is the endpoint's name.
	Endpoint string
	State    State
	// Since is when the state began, the zero time for an endpoint without evidence.
	Since time.Time
	// Evidence is what led to the state.
	Evidence Evidence
	// WritesFrom is when writes no longer prefer other endpoints after the latest verdict on this
	// one: the wait grows with each recent verdict. It is the zero time if there was none.
	WritesFrom time.Time
	// LastErr is the latest error returned or caused by the endpoint, nil if there was
	// none, and LastErrAt its time. It is kept when the endpoint recovers.
	LastErr   error
	LastErrAt time.Time
	// Info is the endpoint's latest report about itself, of a type defined by the [Prober],
	// and InfoAt its time; zero values if there was no report. For etcd members it is an
	// etcdprobe.Role.
	Info   any
	InfoAt time.Time
}

// Change is a transition of one endpoint.
type Change struct {
	Endpoint string
	From, To State
	// Evidence is what led to it.
	Evidence Evidence
}

// Improves reports whether the endpoint can serve more than before.
func (c Change) Improves() bool { return c.To.service() > c.From.service() }
