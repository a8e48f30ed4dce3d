package fakeetcd

import (
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
