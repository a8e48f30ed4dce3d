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

// LeaseEnd records that the key of a lease was found to be deleted, so that the lease has ended.
type LeaseEnd struct {
	// Lease is the id of the lease, and Key its key, which is never deleted.
	Lease int64
	Key   string
	// Seen is when the deletion was known.
	Seen time.Duration
	// Claim is what the client claimed of the lease then.
	Claim LeaseClaim
}

// Refutes reports whether the end shows the claim to be false.
func (e LeaseEnd) Refutes() bool { return e.Seen < e.Claim.Until }
