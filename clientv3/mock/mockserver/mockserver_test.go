package mockserver_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/mock/mockserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var networks = []string{"tcp", "unix"}

func start(t *testing.T, count int, network string) *mockserver.MockServers {
	t.Helper()
	ms, err := mockserver.StartMockServersOnNetwork(count, network)
	require.NoError(t, err)
	t.Cleanup(ms.Stop)
	require.Len(t, ms.Servers, count)
	return ms
}

// dial connects to a server by the address that it gives to resolvers.
func dial(t *testing.T, server *mockserver.MockServer) *grpc.ClientConn {
	t.Helper()
	target := server.ResolverAddress().Addr
	if server.Network == "tcp" {
		target = "passthrough:///" + target
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// settle starts a server of localhost again at a port that is not ephemeral: while the server is stopped, another process
// could be given an ephemeral one.
func settle(ms *mockserver.MockServers, i int) {
	for err := io.EOF; err != nil; err = ms.StartAt(i) {
		ms.StopAt(i)
		ms.Servers[i].Address = fmt.Sprint("127.0.0.1:", 20_000+rand.N(10_000))
	}
}

// accepts reports whether a server listens at the address.
func accepts(server *mockserver.MockServer) bool {
	conn, err := net.Dial(server.Network, server.Address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func TestServices(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			conn := dial(t, start(t, 1, network).Servers[0])
			ctx := t.Context()
			kv, lease := pb.NewKVClient(conn), pb.NewLeaseClient(conn)
			for name, call := range map[string]func() error{
				"Range":           func() error { _, err := kv.Range(ctx, &pb.RangeRequest{}); return err },
				"Put":             func() error { _, err := kv.Put(ctx, &pb.PutRequest{}); return err },
				"DeleteRange":     func() error { _, err := kv.DeleteRange(ctx, &pb.DeleteRangeRequest{}); return err },
				"Txn":             func() error { _, err := kv.Txn(ctx, &pb.TxnRequest{}); return err },
				"Compact":         func() error { _, err := kv.Compact(ctx, &pb.CompactionRequest{}); return err },
				"LeaseGrant":      func() error { _, err := lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{}); return err },
				"LeaseRevoke":     func() error { _, err := lease.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{}); return err },
				"LeaseTimeToLive": func() error { _, err := lease.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{}); return err },
				"LeaseLeases":     func() error { _, err := lease.LeaseLeases(ctx, &pb.LeaseLeasesRequest{}); return err },
			} {
				assert.NoError(t, call(), name)
			}
			renewals, err := lease.LeaseKeepAlive(ctx)
			require.NoError(t, err)
			_, err = renewals.Recv()
			require.Equal(t, io.EOF, err)
			pages, err := kv.RangeStream(ctx, &pb.RangeRequest{})
			require.NoError(t, err)
			_, err = pages.Recv()
			require.Equal(t, codes.Unimplemented, status.Code(err))
			_, err = pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
			require.Equal(t, codes.Unimplemented, status.Code(err))
		})
	}
}

func TestStopAndStart(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			ms := start(t, 3, network)
			if network == "tcp" {
				settle(ms, 1)
			}
			server := ms.Servers[1]
			conn, address := dial(t, server), server.Address
			call := func(opts ...grpc.CallOption) error {
				_, err := pb.NewKVClient(conn).Range(t.Context(), &pb.RangeRequest{}, opts...)
				return err
			}
			require.NoError(t, call())

			ms.StopAt(1)
			require.Nil(t, server.GRPCServer)
			require.False(t, accepts(server))
			require.Equal(t, codes.Unavailable, status.Code(call()))
			require.True(t, accepts(ms.Servers[0]) && accepts(ms.Servers[2]), "the others run")
			ms.StopAt(1)

			require.NoError(t, ms.StartAt(1))
			require.Equal(t, address, server.Address)
			require.NoError(t, call(grpc.WaitForReady(true)))
			// The official package starts a second server on the same listener, loses the first, and its Stop never returns.
			running := server.GRPCServer
			require.NoError(t, ms.StartAt(1))
			require.Same(t, running, server.GRPCServer)

			ms.Stop()
			ms.Stop()
			for _, server := range ms.Servers {
				require.False(t, accepts(server))
				if network == "unix" {
					require.NoFileExists(t, server.Address)
				}
			}
			require.NoError(t, ms.StartAt(1), "after Stop")
			require.True(t, accepts(server))
		})
	}
}

func TestStartFails(t *testing.T) {
	t.Run("network", func(t *testing.T) {
		ms, err := mockserver.StartMockServersOnNetwork(1, "udp")
		require.ErrorContains(t, err, `network "udp" is not supported`)
		require.Nil(t, ms)
	})
	t.Run("count", func(t *testing.T) {
		ms, err := mockserver.StartMockServers(-1) // the official package panics
		require.ErrorContains(t, err, "-1")
		require.Nil(t, ms)
	})
	t.Run("listener", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), strings.Repeat("x", 120)) // no socket's path may be so long
		require.NoError(t, os.Mkdir(dir, 0o700))
		t.Setenv("TMPDIR", dir)
		ms, err := mockserver.StartMockServersOnNetwork(2, "unix") // the official package panics
		require.ErrorContains(t, err, dir)
		require.Nil(t, ms)
	})
	t.Run("address taken", func(t *testing.T) {
		ms := start(t, 1, "tcp")
		settle(ms, 0)
		ms.StopAt(0)
		other, err := net.Listen("tcp", ms.Servers[0].Address)
		require.NoError(t, err)
		require.ErrorContains(t, ms.StartAt(0), ms.Servers[0].Address)
		require.NoError(t, other.Close())
		require.NoError(t, ms.StartAt(0))
	})
	t.Run("index", func(t *testing.T) {
		ms := start(t, 2, "tcp")
		for _, i := range []int{-1, 2} {
			require.ErrorContains(t, ms.StartAt(i), "there is no server")
			ms.StopAt(i)
		}
	})
	t.Run("none", func(t *testing.T) {
		start(t, 0, "tcp").Stop()
	})
}

func TestResolverAddress(t *testing.T) {
	for _, tt := range []struct{ network, address, want string }{
		{"tcp", "127.0.0.1:2379", "127.0.0.1:2379"},
		{"unix", "/tmp/etcd", "unix:///tmp/etcd"},
		{"", "etcd:2379", "etcd:2379"}, // the official package panics
	} {
		server := mockserver.MockServer{Network: tt.network, Address: tt.address}
		require.Equal(t, resolver.Address{Addr: tt.want}, server.ResolverAddress())
	}
}

func TestConcurrentUse(t *testing.T) {
	ms := start(t, 2, "unix")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				ms.StopAt(i % 2)
				assert.NoError(t, ms.StartAt(i%2))
			}
			if i == 0 {
				ms.Stop()
			}
		})
	}
	wg.Wait()
}
