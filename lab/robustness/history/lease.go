package history

import "time"

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
