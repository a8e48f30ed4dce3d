package health

import "time"

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
