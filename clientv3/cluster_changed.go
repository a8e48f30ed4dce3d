package clientv3

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3/internal/lineage"
)

// ClusterChangedError says that the cluster is not the one that the client knew:
// another one answers at its endpoints, or its revision has gone back, because it was
// restored from a backup. What was read before is of a history that is over, and what
// was written since the backup is lost.
//
// Watches of that history end with it ([WatchResponse.Err]), the caches of package
// leasing drop what they hold, and a KV of package ordering fails its reads. Calls of
// the client itself go on with the cluster as it is. The way on is to read again, and to
// watch from the revision of that read.
//
// A client notices it by the headers of its watches, and of gets, puts, deletes and
// transactions. It compares revisions only where a member that lags cannot be taken for
// a store that has gone back; a watch that goes on on a member with a lower
// revision than it has seen costs one linearizable read. It does not notice a restored
// cluster that has the same ID and has passed the revision again. kine sends no cluster
// ID, and nothing is noticed there.
type ClusterChangedError struct {
	// OldClusterID and OldRevision are what was seen before: the highest revision of all.
	OldClusterID uint64
	OldRevision  int64
	// NewClusterID and NewRevision are those of the response that showed the change.
	NewClusterID uint64
	NewRevision  int64
}

func (e *ClusterChangedError) Error() string {
	if e.OldClusterID == e.NewClusterID {
		return fmt.Sprintf("etcdclient: the cluster %x has gone back from revision %d to %d: it was restored; read again",
			e.OldClusterID, e.OldRevision, e.NewRevision)
	}
	return fmt.Sprintf("etcdclient: the cluster is another one: %x at revision %d, before %x at revision %d; read again",
		e.NewClusterID, e.NewRevision, e.OldClusterID, e.OldRevision)
}

func clusterChanged(before, after lineage.Point) error {
	return &ClusterChangedError{
		OldClusterID: before.Cluster, OldRevision: before.Revision,
		NewClusterID: after.Cluster, NewRevision: after.Revision,
	}
}

// historyOf returns the client's; services accept a nil client.
func historyOf(c *Client) *lineage.Tracker {
	if c == nil {
		return nil
	}
	return c.history
}

// readKey reads nothing but the header of a key, linearizably.
func readKey(ctx context.Context, c *Client, key string) error {
	_, err := NewKV(c).Get(ctx, key, WithCountOnly())
	return err
}

// before returns what a call notes in the history when it is answered. A linearizable response is
// not below any revision that was seen before the call.
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

// static returns the options of a call whose method the program names, which is how gRPC's
// statistics know it. Those of the client itself begin with that, and are not copied.
func static(opts []grpc.CallOption) []grpc.CallOption {
	if len(opts) > 0 {
		if _, ok := opts[0].(grpc.StaticMethodCallOption); ok {
			return opts
		}
	}
	return append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
}

// isLinearizable reports whether a member answers a transaction no older than the request.
// etcd serves one that has nothing but serializable reads, and an empty one, by itself.
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
