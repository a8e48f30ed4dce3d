package clientv3

// WithLease attaches the key of a put to a lease: when the lease ends, the key is
// deleted. [NoLease] detaches it. An unknown lease gives
// rpctypes.ErrLeaseNotFound.
func WithLease(leaseID LeaseID) OpOption { return func(op *Op) { op.leaseID = leaseID } }

// WithIgnoreValue makes a put keep the value that the key has. The value given
// must be empty (rpctypes.ErrValueProvided) and the key must exist
// (rpctypes.ErrKeyNotFound).
func WithIgnoreValue() OpOption { return func(op *Op) { op.ignoreValue = true } }

// WithIgnoreLease makes a put keep the lease that the key has. It excludes
// [WithLease] (rpctypes.ErrLeaseProvided) and the key must exist
// (rpctypes.ErrKeyNotFound).
func WithIgnoreLease() OpOption { return func(op *Op) { op.ignoreLease = true } }
