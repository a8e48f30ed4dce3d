package servers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/internal/etcd34"
	"github.com/quorate/quorate/lab/servers/site"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout is far above what a test takes.
const testTimeout = 5 * time.Minute

// TestActs starts a member and a grpc-proxy before one, and does to them what behaviours ask for. Both are etcd 3.4, which
// need not be built.
func TestActs(t *testing.T) {
	path := etcd34.Path(t)
	for _, s := range []Server{All[0], OldProxy} {
		for _, setup := range []site.Setup{site.Own, site.Tokens, site.TLS} {
			t.Run(s.Name+", "+string(setup), func(t *testing.T) {
				ctx := grpctest.Within(t, testTimeout)
				require.True(t, s.Offers(setup))
				r, err := s.Start(ctx, path, setup)
				require.NoError(t, err)
				defer func() { require.NoError(t, r.Close()) }()
				kv := pb.NewKVClient(r.server.Members()[0].Conn())
				put := func(value string) int64 {
					resp, err := kv.Put(ctx, &pb.PutRequest{Key: []byte("k"), Value: []byte(value)}, grpc.WaitForReady(true))
					require.NoError(t, err)
					return resp.GetHeader().GetRevision()
				}
				first := put("1")
				for _, act := range []site.Act{site.Backup, site.Kill, site.Restart, site.Cut, site.Heal} {
					require.NoError(t, r.Do(ctx, act))
				}
				require.Equal(t, first+1, put("2"), "the data outlives a restart")
				require.NoError(t, r.Do(ctx, site.Restore))
				require.Equal(t, first+1, put("3"), "the data of the backup is back")
				require.ErrorContains(t, r.Do(ctx, "unknown"), "unknown")
				require.Equal(t, setup == site.TLS, r.Site().Files.CA != "")
			})
		}
	}
}

func TestKineOffersNoTokens(t *testing.T) {
	kine := All[len(All)-1]
	require.True(t, kine.Offers(site.Plain) && kine.Offers(site.TLS))
	require.False(t, kine.Offers(site.Tokens) || kine.Offers(site.Auth))
}
