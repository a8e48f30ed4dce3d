package fakeetcd

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/store"
)

// firstChunk is how many keys the first response of a RangeStream has. The number
// doubles after a small response and is halved after a large one, as in etcd.
const firstChunk = 10

var kvService = map[string]service{
	"Range":       unary(checked, kvRange),
	"RangeStream": streaming(admitRangeStream, kvRangeStream),
	"Put":         storeMethod(checked, (*Call).permitPut, (*store.Store).Put),
	"DeleteRange": storeMethod(checked, (*Call).permitDelete, (*store.Store).DeleteRange),
	"Txn":         unary(checked, kvTxn),
	"Compact":     storeMethod(admins, withoutKeys, (*store.Store).Compact),
}

func kvRange(c *Call, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := c.admitRange(r); err != nil {
		return nil, err
	}
	return c.cluster.store.Range(r)
}

// admitRange checks quorum and permission of a read that is not in a Txn.
func (c *Call) admitRange(r *pb.RangeRequest) error {
	if !r.Serializable {
		if err := c.quorum(); err != nil {
			return err
		}
	}
	return c.permit(authpb.Permission_READ, r.Key, r.RangeEnd)
}

func kvTxn(c *Call, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if !serializable(r) {
		if err := c.propose(r); err != nil {
			return nil, err
		}
	}
	if err := c.permitTxn(r); err != nil {
		return nil, err
	}
	return c.cluster.store.Txn(r)
}

// serializable reports whether r needs no quorum: it has only serializable reads,
// and no nested transactions.
func serializable(r *pb.TxnRequest) bool {
	return !slices.ContainsFunc(slices.Concat(r.Success, r.Failure), func(op *pb.RequestOp) bool {
		return !op.GetRequestRange().GetSerializable()
	})
}

// kvRangeStream sends a range in chunks, all read at the revision of the first.
// Only the last has a header, and the count of all keys.
func kvRangeStream(c *Call) error {
	req := proto.CloneOf(c.Request.(*pb.RangeRequest))
	left := cmp.Or(req.Limit, math.MaxInt64)
	var revision, sent int64
	for chunk := int64(firstChunk); ; {
		req.Limit = min(chunk, left)
		c.cluster.mu.Lock()
		resp, err := c.cluster.store.Range(req)
		c.cluster.mu.Unlock()
		if err != nil {
			return err
		}
		if revision == 0 {
			revision = resp.Header.Revision
		}
		n := int64(len(resp.Kvs))
		left -= n
		if req.CountOnly || !resp.More || left == 0 {
			resp.Header = c.header(revision)
			resp.Count += sent
			return c.send(&pb.RangeStreamResponse{RangeResponse: resp})
		}
		sent += n
		if err := c.send(&pb.RangeStreamResponse{RangeResponse: &pb.RangeResponse{Kvs: resp.Kvs}}); err != nil {
			return err
		}
		if req.Revision == 0 {
			req.Revision = revision
		}
		req.Key = append(bytes.Clone(resp.Kvs[n-1].Key), 0)
		if size := proto.Size(resp); size < maxRequestBytes/2 {
			chunk *= 2
		} else if size > maxRequestBytes*2 {
			chunk = max(1, chunk/2)
		}
	}
}

// admitRangeStream is admitRange for what can be streamed.
func admitRangeStream(c *Call) error {
	if err := checked(c); err != nil {
		return err
	}
	r := c.Request.(*pb.RangeRequest)
	sorted := r.SortOrder != pb.RangeRequest_NONE &&
		(r.SortTarget != pb.RangeRequest_KEY || r.SortOrder != pb.RangeRequest_ASCEND)
	if sorted {
		return status.Error(codes.Unimplemented, "RangeStream does not support custom sort orders")
	}
	if r.MinModRevision != 0 || r.MaxModRevision != 0 || r.MinCreateRevision != 0 || r.MaxCreateRevision != 0 {
		return status.Error(codes.Unimplemented, "RangeStream does not support revision filters")
	}
	return c.admitRange(r)
}
