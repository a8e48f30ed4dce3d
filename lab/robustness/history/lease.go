package history

import "time"

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
	// At is when the keeper received it.
	At time.Duration
	// Margin is how much was left, when a LeaseRenewed arrived, of the time for which
	// the client had claimed the lease to live before. It is negative when none was
	// left.
	Margin time.Duration
	// Code says why a LeaseExpired happened.
	Code string
	// Err is the error of a LeaseFailed, and the reason for a LeaseExpired if the
	// client gave one.
	Err error
}

// LeaseClaim is what a client claims of a lease.
type LeaseClaim struct {
	// At is when the keeper received it: an answer to a keepalive arrived, or the grant.
	At time.Duration
	// Until is until when the lease is claimed to live. After the grant that is a TTL
	// from its sending.
	Until time.Duration
}

// LeaseLook is one linearizable read of the key that is attached to a lease.
type LeaseLook struct {
	// Lease is the id of the lease, and Key its key, which is never deleted.
	Lease int64
	Key   string
	// Asked is when the read was sent, Answered when it returned.
	Asked, Answered time.Duration
	// Revision is the store revision of the answer.
	Revision int64
	// Found reports whether the key was there.
	Found bool
	// Claim is what the client claimed of the lease when the read had returned.
	Claim LeaseClaim
}

// Refutes reports whether the look shows the claim to be false: the key was gone, and
// the lease with it, at some moment before the end of the time for which it was
// claimed to live.
func (l LeaseLook) Refutes() bool { return !l.Found && l.Answered < l.Claim.Until }
