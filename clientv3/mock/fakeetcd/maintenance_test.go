package fakeetcd

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
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
