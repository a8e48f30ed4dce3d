package fakeetcd

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

func TestStatus(t *testing.T) {
	cluster := start(t, 2)
	maintenance := pb.NewMaintenanceClient(dial(t, cluster.Member(1)))
	resp, err := maintenance.Status(within(t), &pb.StatusRequest{})
	require.NoError(t, err)
	assert.Equal(t, "3.7.3", resp.Version)
	assert.Equal(t, cluster.Member(0).ID(), resp.Leader)
	assert.Equal(t, cluster.Member(1).ID(), resp.Header.MemberId)
	assert.EqualValues(t, pageSize, resp.DbSize)
	assert.Empty(t, resp.Errors)

	cluster.SetLeader(nil)
	resp, err = maintenance.Status(within(t), &pb.StatusRequest{})
	require.NoError(t, err)
	assert.Zero(t, resp.Leader)
	assert.Equal(t, []string{"etcdserver: no leader"}, resp.Errors)
}

// TestSnapshot receives a snapshot of more than one chunk, and its digest.
func TestSnapshot(t *testing.T) {
	cluster := start(t, 1)
	mustPut(t, cluster, "k", string(bytes.Repeat([]byte("v"), 2*snapshotChunk)))
	stream, err := pb.NewMaintenanceClient(dial(t, cluster.Member(0))).Snapshot(within(t), &pb.SnapshotRequest{})
	require.NoError(t, err)
	responses := collect(t, stream)
	require.Len(t, responses, 4)
	var db []byte
	for _, r := range responses[:3] {
		db = append(db, r.Blob...)
	}
	assert.Len(t, db, 2*snapshotChunk+pageSize)
	assert.EqualValues(t, snapshotChunk+pageSize, responses[0].RemainingBytes)
	assert.Zero(t, responses[2].RemainingBytes)
	digest := sha256.Sum256(db)
	assert.Equal(t, digest[:], responses[3].Blob)
	assert.Equal(t, storageVersion, responses[3].Version)
}

func TestHealthWatch(t *testing.T) {
	client := healthpb.NewHealthClient(dial(t, start(t, 1).Member(0)))
	for name, want := range map[string]healthpb.HealthCheckResponse_ServingStatus{
		"": healthpb.HealthCheckResponse_SERVING, "unknown": healthpb.HealthCheckResponse_SERVICE_UNKNOWN,
	} {
		stream, err := client.Watch(within(t), &healthpb.HealthCheckRequest{Service: name})
		require.NoError(t, err)
		resp, err := stream.Recv()
		require.NoError(t, err)
		assert.Equal(t, want, resp.Status, name)
	}
}
