package fakeetcd

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/metadata"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a cluster until the end of the test.
func start(t *testing.T, members int) *Cluster {
	t.Helper()
	cluster, err := Start(members)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	return cluster
}

// dial connects to one member until the end of the test.
func dial(t *testing.T, m *Member) *grpc.ClientConn {
	t.Helper()
	conn, err := m.Dial(grpc.WithDisableRetry(), grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond},
		MinConnectTimeout: 20 * time.Second,
	}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// startKV runs a cluster of one member and connects to it.
func startKV(t *testing.T) (*Cluster, pb.KVClient) {
	cluster := start(t, 1)
	return cluster, pb.NewKVClient(dial(t, cluster.Member(0)))
}

// within returns a context whose timeout no correct test reaches.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func put(key, value string) *pb.PutRequest {
	return &pb.PutRequest{Key: []byte(key), Value: []byte(value)}
}

func get(key string) *pb.RangeRequest { return &pb.RangeRequest{Key: []byte(key)} }

func kvOf(t *testing.T, m *Member) pb.KVClient {
	t.Helper()
	return pb.NewKVClient(dial(t, m))
}

func outgoing(ctx context.Context, kv ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, kv...)
}

// beginPut makes the first put of the cluster, and returns when it has arrived.
func beginPut(ctx context.Context, t *testing.T, cluster *Cluster, kv pb.KVClient) (done <-chan error) {
	t.Helper()
	end := make(chan error, 1)
	go func() {
		_, err := kv.Put(ctx, put("k", "v"))
		end <- err
	}()
	require.NoError(t, cluster.Wait(within(t), "Put", 1))
	return end
}
