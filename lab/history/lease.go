package history

import (
	"fmt"
	"time"
)

// LeaseEventKind is a kind of [LeaseEvent].
type LeaseEventKind uint8

const (
	// LeaseGranted means that a keeper has a new lease, with its key attached.
	LeaseGranted LeaseEventKind = iota
	// LeaseRenewed means that a keepalive was answered.
	LeaseRenewed
	// LeaseExpired means that a keeper lost its lease, as Code says.
	LeaseExpired
	// LeaseFailed means that a keeper without a lease failed to get one.
	LeaseFailed
)

// String returns "granted", "renewed", "expired" or "failed".
func (k LeaseEventKind) String() string {
	switch k {
	case LeaseGranted:
		return "granted"
	case LeaseRenewed:
		return "renewed"
	case LeaseExpired:
		return "expired"
	case LeaseFailed:
		return "failed"
	default:
		return fmt.Sprintf("LeaseEventKind(%d)", uint8(k))
	}
}

// Codes of a LeaseExpired event.
const (
	// KeepaliveEnded means that the client ended the keepalive.
	KeepaliveEnded = "keepalive ended"
	// KeyGone means that the key was gone while the client kept the lease alive.
	KeyGone = "key gone"
)

// LeaseEvent is what happened to the lease of a keeper.
type LeaseEvent struct {
	// Kind of event.
	Kind LeaseEventKind
	// At is when the keeper was told.
	At time.Duration
	// Margin is how much of the lease's time was left when a LeaseRenewed arrived,
	// counted from the arrival of the renewal before, or from the sending of the
	// grant for the first one. It is negative when none was left.
	Margin time.Duration
	// Code says why a LeaseExpired or LeaseFailed happened.
	Code string
	// Err is the error of a LeaseFailed, and the reason for a LeaseExpired if the
	// client gave one.
	Err error
}
