package clientv3

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3/internal/lineage"
)

// ClusterChangedError reports that the cluster is not the one that the client used
// before: another cluster answers at its endpoints, or the revision has gone back
// because the cluster was restored from a backup. Earlier reads belong to a history
// that no longer exists, and writes since the backup are lost.
//
// Watches of that history end with it ([WatchResponse.Err]), the caches of package
// leasing drop what they hold, and a KV of package ordering fails its reads. Calls of
// the client itself continue on the present cluster. To recover, read again and watch
// from the revision of that read.
//
// A client detects the change in the headers of its watches, gets, puts, deletes and
// transactions. It compares revisions only where a lagging member cannot be mistaken
// for a restored store; a watch that resumes on a member with a lower revision than the
// watch has seen costs one linearizable read. A restored cluster that has the same ID
// and has already passed the revision is not detected. kine sends no cluster ID, so no
// change is detected there.
type ClusterChangedError struct {
	// OldClusterID and OldRevision are the ID before the change and the highest revision
	// seen.
	OldClusterID uint64
	OldRevision  int64
	// NewClusterID and NewRevision are from the response that revealed the change.
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

func clusterChanged(c *lineage.Change) error { return (*ClusterChangedError)(c) }

// historyOf returns the client's history; services accept a nil client.
func historyOf(c *Client) *lineage.Tracker {
	if c == nil {
		return nil
	}
	return c.history
}

// readKey makes a linearizable read of key that returns only the header.
func readKey(ctx context.Context, c *Client, key string) error {
	_, err := NewKV(c).Get(ctx, key, WithCountOnly())
	return err
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
