package endpoints_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is far longer than any wait of these tests.
const patience = time.Minute

// start runs a cluster of two members over one store. The client knows only the first one, so that
// a test can stop it and write through the other.
func start(t *testing.T) (cluster *fakeetcd.Cluster, client, other *clientv3.Client) {
	t.Helper()
	cluster = clienttest.Start(t, 2)
	return cluster, connect(t, cluster, 0), connect(t, cluster, 1)
}

func connect(t *testing.T, cluster *fakeetcd.Cluster, member int) *clientv3.Client {
	t.Helper()
	return clienttest.Connect(t, cluster, clientv3.Config{Endpoints: []string{cluster.Member(member).Endpoint()}})
}

func newManager(t *testing.T, client *clientv3.Client, target string) endpoints.Manager {
	t.Helper()
	m, err := endpoints.NewManager(client, target)
	require.NoError(t, err)
	return m
}

// next returns the next updates of the channel.
func next(t *testing.T, ch endpoints.WatchChannel) []*endpoints.Update {
	t.Helper()
	select {
	case updates, ok := <-ch:
		require.True(t, ok, "the channel is closed")
		return updates
	case <-time.After(patience):
		require.Fail(t, "the channel delivers nothing")
		return nil
	}
}

func requireClosed(t *testing.T, ch endpoints.WatchChannel) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case _, ok := <-ch:
			if !ok {
				return
			}
		case <-late:
			require.Fail(t, "the channel is not closed")
		}
	}
}

func add(key, addr string) *endpoints.Update {
	return &endpoints.Update{Op: endpoints.Add, Key: key, Endpoint: endpoints.Endpoint{Addr: addr}}
}

func gone(key string) *endpoints.Update {
	return &endpoints.Update{Op: endpoints.Delete, Key: key}
}
