package clientv3

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3/internal/lineage"
)

// ownKV is the KV service over the client's own connection. It compares the headers of responses with
// the history of the cluster.
type ownKV struct {
	pb.KVClient // RangeStream

	conn    grpc.ClientConnInterface
	history *lineage.Tracker
}

// before returns the history to check the call's response against, and the least revision of that
// response. A linearizable response is not below any revision seen before the call.
func (r *ownKV) before(linearizable bool) (history *lineage.History, least int64) {
	if history = r.history.History(); linearizable {
		least = history.Revision()
	}
	return history, least
}

func (r *ownKV) Range(ctx context.Context, req *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	history, least := r.before(!req.GetSerializable())
	resp := new(pb.RangeResponse)
	if err := r.conn.Invoke(ctx, pb.KV_Range_FullMethodName, req, resp, static(opts)...); err != nil {
		return nil, err
	}
	r.history.Note(history, resp.GetHeader(), least)
	return resp, nil
}

func (r *ownKV) Put(ctx context.Context, req *pb.PutRequest, opts ...grpc.CallOption) (*pb.PutResponse, error) {
	history, least := r.before(true)
	resp := new(pb.PutResponse)
	if err := r.conn.Invoke(ctx, pb.KV_Put_FullMethodName, req, resp, static(opts)...); err != nil {
		return nil, err
	}
	r.history.Note(history, resp.GetHeader(), least)
	return resp, nil
}

func (r *ownKV) DeleteRange(ctx context.Context, req *pb.DeleteRangeRequest, opts ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	history, least := r.before(true)
	resp := new(pb.DeleteRangeResponse)
	if err := r.conn.Invoke(ctx, pb.KV_DeleteRange_FullMethodName, req, resp, static(opts)...); err != nil {
		return nil, err
	}
	r.history.Note(history, resp.GetHeader(), least)
	return resp, nil
}

func (r *ownKV) Txn(ctx context.Context, req *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	history, least := r.before(isLinearizable(req))
	resp := new(pb.TxnResponse)
	if err := r.conn.Invoke(ctx, pb.KV_Txn_FullMethodName, req, resp, static(opts)...); err != nil {
		return nil, err
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
	for _, ops := range [][]*pb.RequestOp{req.GetSuccess(), req.GetFailure()} {
		for _, op := range ops {
			if op.GetRequestPut() != nil || op.GetRequestDeleteRange() != nil || op.GetRequestRange() != nil && !op.GetRequestRange().Serializable {
				return true
			}
		}
	}
	return false
}
