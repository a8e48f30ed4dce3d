package mirror_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func startFake(t *testing.T, members int) (*fakeetcd.Cluster, *clientv3.Client) {
	t.Helper()
	cluster, err := fakeetcd.Start(members)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	c, err := clientv3.New(clientv3.Config{
		Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return cluster, c
}
