package fakeetcd

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
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

const (
	// The versions are those of the etcd release that the fake follows.
	serverVersion  = "3.7.3"
	storageVersion = "3.7.0"
	// dbQuota in bytes is etcd's default of --quota-backend-bytes.
	dbQuota = 2 * 1024 * 1024 * 1024
	// snapshotChunk in bytes is the size of etcd's snapshot messages.
	snapshotChunk = 32 * 1024
	// pageSize in bytes divides the size of every database file.
	pageSize = 4096
)

var maintenanceService = map[string]service{
	"Status":     unary(users, maintenanceStatus),
	"Defragment": unary(admins, maintenanceDefragment),
	"Snapshot":   streaming(admins, maintenanceSnapshot),
}

func maintenanceStatus(c *Call, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	size := int64(paged(len(c.cluster.store.Encode())))
	index := uint64(c.cluster.store.Revision())
	resp := &pb.StatusResponse{
		Header:           &pb.ResponseHeader{},
		Version:          serverVersion,
		StorageVersion:   storageVersion,
		RaftTerm:         c.cluster.term,
		RaftIndex:        index,
		RaftAppliedIndex: index,
		DbSize:           size,
		DbSizeInUse:      size,
		DbSizeQuota:      dbQuota,
		DowngradeInfo:    &pb.DowngradeInfo{},
	}
	if c.cluster.leader == nil {
		resp.Errors = []string{"etcdserver: no leader"}
	} else {
		resp.Leader = c.cluster.leader.id
	}
	return resp, nil
}

func maintenanceDefragment(*Call, *pb.DefragmentRequest) (*pb.DefragmentResponse, error) {
	return &pb.DefragmentResponse{}, nil
}

// maintenanceSnapshot sends the database in chunks, and then its SHA-256
// digest as a message of its own.
func maintenanceSnapshot(c *Call) error {
	db := c.cluster.database()
	for rest := db; len(rest) > 0; {
		n := min(snapshotChunk, len(rest))
		resp := &pb.SnapshotResponse{Blob: rest[:n], RemainingBytes: uint64(len(rest) - n), Version: storageVersion}
		if err := c.send(resp); err != nil {
			return err
		}
		rest = rest[n:]
	}
	digest := sha256.Sum256(db)
	return c.send(&pb.SnapshotResponse{Blob: digest[:], Version: storageVersion})
}

// database returns a stand-in for the database file: the keys, padded to whole
// pages, at least one.
func (c *Cluster) database() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	data := c.store.Encode()
	return append(data, make([]byte, paged(len(data))-len(data))...)
}

// paged rounds size up to whole pages, at least one.
func paged(size int) int { return max(1, (size+pageSize-1)/pageSize) * pageSize }

var clusterService = map[string]service{"MemberList": unary(users, memberList)}

func memberList(c *Call, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if r.Linearizable {
		if err := c.quorum(); err != nil {
			return nil, err
		}
	}
	resp := &pb.MemberListResponse{Header: &pb.ResponseHeader{}}
	for i, m := range c.cluster.members {
		peer := fmt.Sprintf("http://member-%d.fakeetcd:2380", i)
		resp.Members = append(resp.Members, &pb.Member{ID: m.id, Name: m.name, PeerURLs: []string{peer}, ClientURLs: []string{m.Endpoint()}})
	}
	return resp, nil
}

// healthService always reports SERVING, like etcd outside a defragmentation. It
// knows only the empty service name, the server as a whole.
var healthService = map[string]service{
	"Check": unary(open, func(_ *Call, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
		if r.Service != "" {
			return nil, status.Error(codes.NotFound, "unknown service")
		}
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
	}),
}

var leaseService = map[string]service{
	"LeaseGrant":      storeMethod(users, withoutKeys, (*store.Store).LeaseGrant),
	"LeaseRevoke":     storeMethod(users, (*Call).permitRevoke, (*store.Store).LeaseRevoke),
	"LeaseTimeToLive": unary(users, leaseTimeToLive),
	"LeaseLeases":     unary(users, leaseLeases),
	"LeaseKeepAlive":  streaming(open, leaseKeepAlive),
}

func leaseTimeToLive(c *Call, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	if r.Keys {
		if err := c.permitLease(r.ID, authpb.Permission_READ); err != nil {
			return nil, err
		}
	}
	if c.cluster.leader == nil {
		return nil, rpctypes.ErrGRPCNoLeader
	}
	return c.cluster.store.LeaseTimeToLive(r), nil
}

func leaseLeases(c *Call, _ *pb.LeaseLeasesRequest) (*pb.LeaseLeasesResponse, error) {
	resp := c.cluster.store.LeaseLeases()
	for _, l := range resp.Leases {
		if err := c.permitLease(l.ID, authpb.Permission_READ); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

func leaseKeepAlive(c *Call) error {
	requests, lost := c.requests(), c.leaderLost()
	for {
		select {
		case req, ok := <-requests:
			if !ok {
				return c.Context().Err()
			}
			resp, err := c.renew(req.(*pb.LeaseKeepAliveRequest))
			if err == nil {
				err = c.send(resp)
			}
			if err != nil {
				return err
			}
		case <-lost:
			return rpctypes.ErrGRPCNoLeader
		case <-c.Context().Done():
			return c.Context().Err()
		}
	}
}

// renew returns the answer to one keepalive: TTL 0 if the lease does not exist. Only the leader renews a lease.
func (c *Call) renew(r *pb.LeaseKeepAliveRequest) (*pb.LeaseKeepAliveResponse, error) {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	if c.cluster.leader == nil {
		return nil, rpctypes.ErrGRPCNoLeader
	}
	if err := users(c); err != nil {
		return nil, err
	}
	if err := c.permitLease(r.ID, authpb.Permission_WRITE); err != nil {
		return nil, err
	}
	resp := c.cluster.store.LeaseRenew(r)
	c.fill(resp.Header, true)
	return resp, nil
}
