package etcd

import "github.com/quorate/quorate/clientv3/concurrency"

// State is the state of a registration: that of its key.
type State = concurrency.KeyState

const (
	// Registered endpoints are in etcd, with a lease that is kept alive.
	Registered = concurrency.KeyHeld
	// Lost endpoints are not in etcd, or may soon expire. They are being registered again.
	Lost = concurrency.KeyLost
	// Superseded endpoints have lost their key to another registration. They are registered
	// again if that one is deleted.
	Superseded = concurrency.KeySuperseded
	// Withdrawn endpoints are no longer kept registered, after [Registrar.Withdraw].
	Withdrawn = concurrency.KeyRemoved
)

// Event reports a change of a registration's state, or a new reason for the present state.
type Event = concurrency.KeyEvent

var (
	// ErrDeleted is the reason of Lost if the key was deleted while its lease is alive.
	ErrDeleted = concurrency.ErrKeyDeleted

	// ErrSuperseded is returned by updates while another registration has the key.
	ErrSuperseded = concurrency.ErrKeySuperseded

	// ErrWithdrawn is returned by updates after [Registrar.Withdraw].
	ErrWithdrawn = concurrency.ErrKeyRemoved
)
