package health

import "time"

// Status is what is known of one endpoint at one moment. It must not be changed.
type Status struct {
	// Endpoint is its name.
	Endpoint string
	State    State
	// Since is when the state began, the zero time for an endpoint of which nothing is
	// known yet.
	Since time.Time
	// Evidence is what led to the state.
	Evidence Evidence
	// LastErr is the latest error that the endpoint gave or caused, nil if there was none
	// yet, and LastErrAt when that was. It stays when the endpoint recovers.
	LastErr   error
	LastErrAt time.Time
	// Info is what the endpoint last reported of itself, in the form of the [Prober] that
	// asked, and InfoAt when; the zero values if it was never asked. For etcd members it is
	// an etcdprobe.Role.
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

// Improves reports whether the endpoint can do more than before.
func (c Change) Improves() bool { return c.To.service() > c.From.service() }
