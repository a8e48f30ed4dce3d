package etcd_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout is far longer than any wait of these tests.
const (
	testTimeout = time.Minute
	// poll is the pause between two checks of a condition.
	poll = time.Millisecond
)

// start runs a cluster of two members over one store. The client knows only the first one, so that
// a test can stop it and write through the other.
func start(t *testing.T) (cluster *fakeetcd.Cluster, client, other *clientv3.Client) {
	t.Helper()
	cluster, err := fakeetcd.Start(2)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	return cluster, connect(t, cluster, 0), connect(t, cluster, 1)
}

func connect(t *testing.T, cluster *fakeetcd.Cluster, member int) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{cluster.Member(member).Endpoint()}, DialOptions: cluster.DialOptions(), Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}
