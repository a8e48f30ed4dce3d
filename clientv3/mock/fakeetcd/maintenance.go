package fakeetcd

import (
	"crypto/sha256"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

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
