package clientv3

import (
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3/internal/lineage"
)

// ownKV is the KV service over the client's own connection. It compares the header of each
// response to a get, put, delete or transaction with the history of the cluster.
type ownKV struct {
	pb.KVClient // for Compact and RangeStream, whose headers are not compared

	conn    grpc.ClientConnInterface
	history *lineage.Tracker
}

func (r *ownKV) Range(ctx context.Context, req *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	return call(ctx, r, pb.KV_Range_FullMethodName, isCurrentRange, req, new(pb.RangeResponse), opts)
}

func (r *ownKV) Put(ctx context.Context, req *pb.PutRequest, opts ...grpc.CallOption) (*pb.PutResponse, error) {
	return call(ctx, r, pb.KV_Put_FullMethodName, always, req, new(pb.PutResponse), opts)
}

func (r *ownKV) DeleteRange(ctx context.Context, req *pb.DeleteRangeRequest, opts ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	return call(ctx, r, pb.KV_DeleteRange_FullMethodName, always, req, new(pb.DeleteRangeResponse), opts)
}

func (r *ownKV) Txn(ctx context.Context, req *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	return call(ctx, r, pb.KV_Txn_FullMethodName, isCurrentTxn, req, new(pb.TxnResponse), opts)
}

// call makes a call. A current response is not below any revision seen before the call.
func call[Req any, Resp interface{ GetHeader() *pb.ResponseHeader }](
	ctx context.Context, r *ownKV, method string, current func(Req, Resp) bool, req Req, resp Resp, opts []grpc.CallOption,
) (none Resp, err error) {
	history, least := r.history.Begin()
	if err := r.conn.Invoke(ctx, method, req, resp, static(opts)...); err != nil {
		return none, err
	}
	h := resp.GetHeader()
	if h.GetRevision() < least && !current(req, resp) {
		least = 0
	}
	r.history.Note(history, h, least)
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

func always[Req, Resp any](Req, Resp) bool { return true }

// isCurrentRange reports whether a response has the revision of the moment at which it was made. A
// grpc-proxy with a leasing prefix serves single keys from memory, with an earlier revision.
func isCurrentRange(req *pb.RangeRequest, _ *pb.RangeResponse) bool {
	return !req.GetSerializable() && len(req.GetRangeEnd()) > 0
}

// isCurrentTxn is isCurrentRange for a transaction. An etcd member serves an empty one, and one with
// serializable reads only, from its own state.
func isCurrentTxn(req *pb.TxnRequest, resp *pb.TxnResponse) bool {
	executed := req.GetFailure()
	if resp.GetSucceeded() {
		executed = req.GetSuccess()
	}
	return slices.ContainsFunc(executed, func(op *pb.RequestOp) bool {
		return op.GetRequestPut() != nil || op.GetRequestDeleteRange() != nil || isCurrentRange(op.GetRequestRange(), nil)
	})
}
