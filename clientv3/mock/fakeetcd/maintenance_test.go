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

	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: 7, Alarm: pb.AlarmType_NOSPACE}
	_, err = maintenance.Alarm(within(t), alarm)
	require.NoError(t, err)
	cluster.SetLeader(nil)
	resp, err = maintenance.Status(within(t), &pb.StatusRequest{})
	require.NoError(t, err)
	assert.Zero(t, resp.Leader)
	require.Len(t, resp.Errors, 2)
	assert.Equal(t, "etcdserver: no leader", resp.Errors[0])
	assert.Contains(t, resp.Errors[1], "NOSPACE")
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

func TestHashes(t *testing.T) {
	cluster := start(t, 2)
	first := pb.NewMaintenanceClient(dial(t, cluster.Member(0)))
	second := pb.NewMaintenanceClient(dial(t, cluster.Member(1)))
	mustPut(t, cluster, "k", "1")
	at2, err := first.HashKV(within(t), &pb.HashKVRequest{})
	require.NoError(t, err)
	mustPut(t, cluster, "k", "2")
	at3, err := second.HashKV(within(t), &pb.HashKVRequest{})
	require.NoError(t, err)
	assert.NotEqual(t, at2.Hash, at3.Hash)
	again, err := second.HashKV(within(t), &pb.HashKVRequest{Revision: 2})
	require.NoError(t, err)
	assert.Equal(t, at2.Hash, again.Hash)
	assert.EqualValues(t, 2, again.HashRevision)
	assert.EqualValues(t, -1, again.CompactRevision)
	require.NoError(t, cluster.Compact(3))
	same, err := first.HashKV(within(t), &pb.HashKVRequest{})
	require.NoError(t, err)
	assert.Equal(t, at3.Hash, same.Hash, "a compaction keeps what can be seen")
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
