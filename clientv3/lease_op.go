package clientv3

import pb "go.etcd.io/etcd/api/v3/etcdserverpb"

// LeaseOp holds the options of [Lease.TimeToLive].
type LeaseOp struct {
	id           LeaseID
	attachedKeys bool
}

// LeaseOption sets a property of a lease operation.
type LeaseOption func(*LeaseOp)

// WithAttachedKeys makes TimeToLive list the keys attached to the lease. With
// authentication on, it needs permission to read them.
func WithAttachedKeys() LeaseOption {
	return func(op *LeaseOp) { op.attachedKeys = true }
}

func toTimeToLiveRequest(id LeaseID, opts []LeaseOption) *pb.LeaseTimeToLiveRequest {
	op := LeaseOp{id: id}
	for _, opt := range opts {
		opt(&op)
	}
	return &pb.LeaseTimeToLiveRequest{ID: int64(op.id), Keys: op.attachedKeys}
}
