package etcd

import (
	"strconv"

	"github.com/quorate/quorate/clientv3"
)

// State is where a registration stands.
type State uint8

const (
	// Registered endpoints are in etcd, under a lease that is kept alive.
	Registered State = iota + 1
	// Lost endpoints are not in etcd, or may soon not be. They are being registered again.
	Lost
	// Superseded endpoints have lost their key to another registration. That is left alone,
	// and if it goes they are registered again.
	Superseded
	// Withdrawn endpoints are not kept registered any more, by [Registrar.Withdraw].
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

// Event says that the state of a registration has changed, or why it lasts.
type Event struct {
	State State
	// Again says of Registered that the endpoint was registered before, and lost or
	// superseded meanwhile.
	Again bool
	// Lease is the one that the endpoint is registered under, or was.
	Lease clientv3.LeaseID
	// Err is why the state is Lost: rpctypes.ErrLeaseNotFound if the server said that the
	// lease does not exist, clientv3.ErrLeaseUnanswered, wrapped, if it was not renewed
	// in time, [ErrDeleted], an error of the attempt to register again, or, for the last
	// time, that the client was closed.
	//
	// With Registered and Superseded it is why the key cannot be watched or updated, for
	// want of permission to read it for instance: the endpoint stays what it is, and is
	// looked at again. With Withdrawn it is why the endpoint may still be in etcd; it goes
	// with its lease.
	Err error
}
