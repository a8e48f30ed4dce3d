package etcd

import (
	"strconv"

	"github.com/quorate/quorate/clientv3"
)

// State is the state of a registration.
type State uint8

const (
	// Registered endpoints are in etcd, with a lease that is kept alive.
	Registered State = iota + 1
	// Lost endpoints are not in etcd, or may soon expire. They are being registered again.
	Lost
	// Superseded endpoints have lost their key to another registration. They are registered
	// again if that one is deleted.
	Superseded
	// Withdrawn endpoints are no longer kept registered, after [Registrar.Withdraw].
	Withdrawn
)

var stateNames = [...]string{Registered: "registered", Lost: "lost", Superseded: "superseded", Withdrawn: "withdrawn"}

// String returns "registered", "lost", "superseded" or "withdrawn".
func (s State) String() string {
	if int(s) < len(stateNames) && stateNames[s] != "" {
		return stateNames[s]
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}

// Event reports a change of a registration's state, or a new reason for the present
// state.
type Event struct {
	State State
	// Again is set with Registered if the endpoint was lost or superseded before.
	Again bool
	// Lease is the present or last lease of the endpoint.
	Lease clientv3.LeaseID
	// Err is why the state is Lost: rpctypes.ErrLeaseNotFound if the server said that the lease
	// does not exist, clientv3.ErrLeaseUnanswered, wrapped, if it was not renewed in time,
	// [ErrDeleted], an error of the attempt to register again, or, as the last event, that the
	// client was closed.
	//
	// With Registered and Superseded it is why the key cannot be watched or updated, such as a
	// missing permission to read it: the state stays, and the key is checked again. With Withdrawn
	// it is why the endpoint may still be in etcd; it expires with its lease.
	Err error
}
