//go:build experiment

// Package keepalive_test tests the preset for etcd on etcd itself.
package keepalive_test

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	grpckeepalive "google.golang.org/grpc/keepalive"

	"github.com/quorate/quorate/internal/endpoint"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/keepalive"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

var idle = flag.Duration("idle", time.Minute, "how long connections to a real etcd are left alone; at least 1m, which lets the client that must fail do so")

// testTimeout is far above what anything takes that has to happen at once.
const testTimeout = 5 * time.Minute

func TestMain(m *testing.M) { labtest.Verify(m) }

// TestIdleOnEtcd leaves connections to a real etcd alone: one without calls and one
// with a quiet watch, as the preset has them, and one as it refuses them.
func TestIdleOnEtcd(t *testing.T) {
	require.GreaterOrEqual(t, *idle, time.Minute)
	cluster := labtest.Start(t, lab.Config{Members: 1})
	ep, err := endpoint.Parse(cluster.Members()[0].DirectEndpoint())
	require.NoError(t, err)
	_, addr := endpoint.DialTarget(ep.Address)

	options := keepalive.Etcd().DialOptions()
	quiet, watching := dial(t, addr, options...), dial(t, addr, options...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch, err := pb.NewWatchClient(watching).Watch(ctx)
	require.NoError(t, err)

	refused := keepalive.Etcd().Pair()
	refused.Client.PermitWithoutStream = true
	var predicted *keepalive.TooManyPingsError
	require.ErrorAs(t, refused.Validate(), &predicted)
	offending := dial(t, addr, grpc.WithKeepaliveParams(grpckeepalive.ClientParameters(refused.Client)))

	begin := time.Now()
	require.True(t, offending.WaitForStateChange(grpctest.Within(t, *idle+testTimeout), connectivity.Ready), "etcd has ended the connection")
	t.Logf("predicted for %v, came after %v", predicted.After, time.Since(begin))

	time.Sleep(time.Until(begin.Add(*idle)))
	assert.Equal(t, connectivity.Ready, quiet.GetState())
	cancel()
	_, err = watch.Recv()
	require.ErrorContains(t, err, "context canceled", "nothing else has ended the watch")
}

// dial returns a connected channel to one address.
func dial(t *testing.T, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithIdleTimeout(0))...)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	ctx := grpctest.Within(t, testTimeout)
	conn.Connect()
	for s := conn.GetState(); s != connectivity.Ready; s = conn.GetState() {
		require.True(t, conn.WaitForStateChange(ctx, s), "still %v", s)
	}
	return conn
}
