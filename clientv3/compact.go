package clientv3

import pb "go.etcd.io/etcd/api/v3/etcdserverpb"

// CompactOp is the operation that [KV.Compact] carries out.
type CompactOp struct {
	revision int64
	physical bool
}

// CompactOption sets a property of a compaction.
type CompactOption func(*CompactOp)

// OpCompact returns the operation that discards the history before rev.
func OpCompact(rev int64, opts ...CompactOption) CompactOp {
	op := CompactOp{revision: rev}
	for _, opt := range opts {
		opt(&op)
	}
	return op
}

// WithCompactPhysical delays the response until the member that serves the request
// has removed the discarded entries from its storage.
func WithCompactPhysical() CompactOption {
	return func(op *CompactOp) { op.physical = true }
}

func (op CompactOp) toRequest() *pb.CompactionRequest {
	return &pb.CompactionRequest{Revision: op.revision, Physical: op.physical}
}
