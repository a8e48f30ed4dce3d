package fakecheck_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/lab"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// patience is far above what any program takes; one that hangs is ended by it.
const patience = time.Minute

// realEtcd returns a connection to the only member of a new cluster.
func realEtcd(t *testing.T) *grpc.ClientConn {
	t.Helper()
	cluster, err := lab.Start(t.Context(), lab.Config{
		Members: 1,
		Dir:     t.TempDir(),
		// etcd's own defaults: the shortest lease depends on them.
		Heartbeat: 100 * time.Millisecond,
		Election:  time.Second,
		Args:      []string{"--bcrypt-cost=4"}, // the lowest: logins are many here
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, cluster.Close()) })
	return cluster.Members()[0].Conn()
}

// fakeEtcd returns a connection to the only member of a new fake cluster.
func fakeEtcd(t *testing.T) *grpc.ClientConn {
	t.Helper()
	cluster, err := fakeetcd.Start(1)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	conn, err := cluster.Member(0).Dial()
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// settle waits for what a real member changes by itself in its first seconds: it sets the version of its storage, which
// Status tells, after that of the cluster, which decides about downgrades. A fake has both from the start.
func settle(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const want = "3.7.0"
	for {
		status, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
		require.NoError(t, err)
		if status.StorageVersion == want {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			require.Failf(t, "the member did not settle", "storage version %q, want %q", status.StorageVersion, want)
		}
	}
}
