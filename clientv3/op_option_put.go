package clientv3

// WithLease attaches the key of a put to a lease: when the lease ends, the key is
// deleted. [NoLease] detaches it. A put with an unknown lease fails with
// rpctypes.ErrLeaseNotFound.
func WithLease(leaseID LeaseID) OpOption { return func(op *Op) { op.leaseID = leaseID } }

// WithIgnoreValue makes a put keep the key's value. The put's value must be empty
// (else rpctypes.ErrValueProvided) and the key must exist (else
// rpctypes.ErrKeyNotFound).
func WithIgnoreValue() OpOption { return func(op *Op) { op.ignoreValue = true } }

// WithIgnoreLease makes a put keep the key's lease. It excludes [WithLease] (else
// rpctypes.ErrLeaseProvided) and the key must exist (else rpctypes.ErrKeyNotFound).
func WithIgnoreLease() OpOption { return func(op *Op) { op.ignoreLease = true } }
