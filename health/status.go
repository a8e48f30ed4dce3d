package health

import "time"

// Status is what is known of one endpoint at one moment. It must not be changed.
type Status struct {
	// Endpoint as the client was given it.
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
	// Role is what the endpoint last said of itself, and RoleAt when; the zero values if
	// it was never asked or is no member of a cluster.
	Role   Role
	RoleAt time.Time
}

// Change is a transition of one endpoint.
type Change struct {
	Endpoint string
	From, To State
	// Evidence is what led to it.
	Evidence Evidence
}
