package resolver_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

const roundRobin = `{"loadBalancingConfig":[{"round_robin":{}}]}`

func dial(t *testing.T, client *clientv3.Client, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append(opts, grpc.WithResolvers(newBuilder(t, client, noOutageConfig)), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("etcd:///svc", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Closing a channel while etcd is unreachable does not wait, and leaks nothing.
func TestCloseInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, _ := clienttest.StartPair(t)
		cluster.Member(0).Stop()
		conn := dial(t, client)
		conn.Connect()
		synctest.Wait()
		began := time.Now()
		require.NoError(t, conn.Close())
		require.Zero(t, time.Since(began))
	})
}
