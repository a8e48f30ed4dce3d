package clientv3

import (
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3/internal/lineage"
)

// ownKV is the KV service over the client's own connection. It compares the header of each
// response with the history of the cluster.
type ownKV struct {
	pb.KVClient // for what is not of this client's own making

	conn    grpc.ClientConnInterface
	history *lineage.Tracker
}

func (r *ownKV) Range(ctx context.Context, req *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	return call(ctx, r, pb.KV_Range_FullMethodName, !req.GetSerializable(), req, new(pb.RangeResponse), opts)
}

func (r *ownKV) Put(ctx context.Context, req *pb.PutRequest, opts ...grpc.CallOption) (*pb.PutResponse, error) {
	return call(ctx, r, pb.KV_Put_FullMethodName, true, req, new(pb.PutResponse), opts)
}

func (r *ownKV) DeleteRange(ctx context.Context, req *pb.DeleteRangeRequest, opts ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	return call(ctx, r, pb.KV_DeleteRange_FullMethodName, true, req, new(pb.DeleteRangeResponse), opts)
}

func (r *ownKV) Txn(ctx context.Context, req *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	return call(ctx, r, pb.KV_Txn_FullMethodName, isLinearizable(req), req, new(pb.TxnResponse), opts)
}

// call makes a call. A linearizable response is not below any revision seen before the call.
func call[Resp interface{ GetHeader() *pb.ResponseHeader }](
	ctx context.Context, r *ownKV, method string, linearizable bool, req any, resp Resp, opts []grpc.CallOption,
) (none Resp, err error) {
	history, least := r.history.Begin(linearizable)
	if err := r.conn.Invoke(ctx, method, req, resp, static(opts)...); err != nil {
		return none, err
	}
	r.history.Note(history, resp.GetHeader(), least)
	return resp, nil
}

// static returns call options that include StaticMethod, which gRPC's statistics use to
// name the method. The client's own options already begin with it and are not copied.
func static(opts []grpc.CallOption) []grpc.CallOption {
	if len(opts) > 0 {
		if _, ok := opts[0].(grpc.StaticMethodCallOption); ok {
			return opts
		}
	}
	return append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
}

// isLinearizable reports whether the response to a transaction is no older than the
// request. An etcd member serves an empty transaction, and one with serializable reads
// only, from its own state.
func isLinearizable(req *pb.TxnRequest) bool {
	needsLeader := func(op *pb.RequestOp) bool {
		return op.GetRequestPut() != nil || op.GetRequestDeleteRange() != nil || op.GetRequestRange() != nil && !op.GetRequestRange().Serializable
	}
	return slices.ContainsFunc(req.GetSuccess(), needsLeader) || slices.ContainsFunc(req.GetFailure(), needsLeader)
}
