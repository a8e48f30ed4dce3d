package servers

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/lab/internal/etcd34"
	"github.com/quorate/quorate/lab/servers/site"
)

// withClient starts a server, and loses the answer to the Txn for which lose is set.
func withClient(t *testing.T, s Server, path string, test func(ctx context.Context, client *clientv3.Client, lose *atomic.Bool)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := s.Start(ctx, path, site.Plain)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	lose := new(atomic.Bool)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{r.Site("").Endpoint},
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				err := invoke(ctx, method, req, reply, cc, opts...)
				if err == nil && method == pb.KV_Txn_FullMethodName && lose.CompareAndSwap(true, false) {
					return status.Error(codes.Unavailable, "the answer is lost")
				}
				return err
			})},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	test(ctx, client, lose)
}

// TestIdempotentWrites writes through lanes of the oldest etcd, and of a grpc-proxy before it.
func TestIdempotentWrites(t *testing.T) {
	path := etcd34.Path(t)
	for _, s := range []Server{All[0], {Name: "grpc-proxy 3.4", kind: grpcProxy}} {
		t.Run(s.Name, func(t *testing.T) {
			withClient(t, s, path, func(ctx context.Context, client *clientv3.Client, lose *atomic.Bool) {
				kv, err := idempotent.New(ctx, client, idempotent.Config{})
				require.NoError(t, err)
				defer func() { require.NoError(t, kv.Close()) }()
				for range 2 {
					lose.Store(true)
					put, err := kv.Put(ctx, "k", "v", clientv3.WithPrevKV())
					require.NoError(t, err)
					require.Nil(t, put.PrevKv)
					lose.Store(true)
					txn, err := kv.Txn(ctx).If(clientv3.Compare(clientv3.Version("k"), "=", 2)).
						Then(clientv3.OpPut("k", "x")).Else(clientv3.OpGet("k"), clientv3.OpPut("k", "w")).Commit()
					require.NoError(t, err)
					require.False(t, txn.Succeeded)
					require.Equal(t, "v", string(txn.Responses[0].GetResponseRange().Kvs[0].Value))
					lose.Store(true)
					deleted, err := kv.Delete(ctx, "k", clientv3.WithPrevKV())
					require.NoError(t, err)
					require.EqualValues(t, 2, deleted.PrevKvs[0].Version)
					require.False(t, lose.Load())
				}
			})
		})
	}
}

// TestIdempotentWritesOnKine requires that kine is refused.
func TestIdempotentWritesOnKine(t *testing.T) {
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	path := filepath.Join(cache, "quorate", "servers", "kine")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("kine is not built, `make servers-short` does so: %v", err)
	}
	withClient(t, All[len(All)-1], path, func(ctx context.Context, client *clientv3.Client, _ *atomic.Bool) {
		_, err := idempotent.New(ctx, client, idempotent.Config{})
		require.Error(t, err)
		t.Log(err)
	})
}
