package consumer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a cluster and connects to it.
func start(t *testing.T) (*fakeetcd.Cluster, *clientv3.Client, context.Context) {
	t.Helper()
	cluster, err := fakeetcd.Start(1)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	client, err := clientv3.New(config(cluster))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return cluster, client, ctx
}

func config(cluster *fakeetcd.Cluster) clientv3.Config {
	return clientv3.Config{
		Endpoints:   cluster.Endpoints(),
		DialTimeout: time.Minute,
		DialOptions: cluster.DialOptions(),
		Logger:      zap.NewNop(),
	}
}

// session opens a session, which ends with the test.
func session(t *testing.T, client *clientv3.Client) *concurrency.Session {
	t.Helper()
	s, err := concurrency.NewSession(client, concurrency.WithTTL(60))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// requireSame compares errors as programs do: with ==.
func requireSame(t *testing.T, want, got error) {
	t.Helper()
	if got != want {
		t.Fatalf("got error %v, want the value %v", got, want)
	}
}
