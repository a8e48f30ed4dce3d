package resolver_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/internal/grpctest"
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

// askUntilError makes calls until one fails with the text. Between the empty list and its reason,
// gRPC returns a text of its own.
func askUntilError(t *testing.T, conn *grpc.ClientConn, text string) {
	t.Helper()
	for ctx := clienttest.Within(t); ; {
		_, err := grpctest.Ask(ctx, conn)
		require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		if strings.Contains(err.Error(), text) {
			return
		}
	}
}

func TestChannel(t *testing.T) {
	_, client, _ := clienttest.StartPair(t)
	a, b := grpctest.ServeHealth(t), grpctest.ServeHealth(t)
	conn := dial(t, client, grpc.WithDefaultServiceConfig(roundRobin))

	_, err := grpctest.Ask(clienttest.Within(t), conn)
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	askUntilError(t, dial(t, client), `service "svc": no endpoint is registered`) // from pick_first, which passes it on

	register(t, client, "svc", map[string]string{"a": a})
	grpctest.AskUntilAll(clienttest.Within(t), t, conn, a)
	register(t, client, "svc", map[string]string{"b": b})
	grpctest.AskUntilAll(clienttest.Within(t), t, conn, a, b)
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
