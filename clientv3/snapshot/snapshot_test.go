package snapshot_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start returns a member whose snapshot takes several messages.
func start(t *testing.T) (*fakeetcd.Cluster, clientv3.Config) {
	t.Helper()
	cluster := clienttest.Start(t, 1)
	_, err := cluster.Put("k", string(bytes.Repeat([]byte("v"), 200<<10)))
	require.NoError(t, err)
	return cluster, clientv3.Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions()}
}

// target returns the path of a file in a directory of its own, which holds an older
// snapshot.
func target(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "etcd.db")
	require.NoError(t, os.WriteFile(path, []byte(older), 0o644))
	return path
}

const older = "an older snapshot"

// requireUntouched: the older snapshot is there, and nothing else.
func requireUntouched(t *testing.T, path string) {
	t.Helper()
	content := clienttest.Must(os.ReadFile(path))
	require.Equal(t, older, string(content))
	requireAlone(t, path)
}

func requireAlone(t *testing.T, path string) {
	t.Helper()
	entries := clienttest.Must(os.ReadDir(filepath.Dir(path)))
	require.Len(t, entries, 1, "%v", entries)
}

// requireSnapshot: the file ends with its digest.
func requireSnapshot(t *testing.T, path string) {
	t.Helper()
	content := clienttest.Must(os.ReadFile(path))
	require.Greater(t, len(content), 200<<10)
	database := len(content) - sha256.Size
	digest := sha256.Sum256(content[:database])
	require.Equal(t, digest[:], content[database:])
}

func TestSaveInTheWorkingDirectory(t *testing.T) {
	_, cfg := start(t)
	dir := t.TempDir()
	t.Chdir(dir)
	_, err := snapshot.SaveWithVersion(t.Context(), zap.NewNop(), cfg, "etcd.db")
	require.NoError(t, err)
	requireSnapshot(t, filepath.Join(dir, "etcd.db"))
}

// TestLogger: without a logger there is no log. The official function panics.
func TestLogger(t *testing.T) {
	_, cfg := start(t)
	_, err := snapshot.SaveWithVersion(t.Context(), nil, cfg, target(t))
	require.NoError(t, err)

	core, logs := observer.New(zap.InfoLevel)
	cfg.Logger = zap.New(core)
	path := target(t)
	_, err = snapshot.SaveWithVersion(t.Context(), nil, cfg, path)
	require.NoError(t, err)
	saved := logs.FilterMessage("saved snapshot").All()
	require.Len(t, saved, 1)
	require.Equal(t, path, saved[0].ContextMap()["path"])
	require.Equal(t, cfg.Endpoints[0], saved[0].ContextMap()["endpoint"])
}

func TestOneEndpoint(t *testing.T) {
	cluster, cfg := start(t)
	for _, endpoints := range [][]string{nil, {cluster.Endpoints()[0], "other:2379"}} {
		cfg.Endpoints = endpoints
		path := target(t)
		_, err := snapshot.SaveWithVersion(t.Context(), zap.NewNop(), cfg, path)
		require.ErrorContains(t, err, "want exactly 1")
		requireUntouched(t, path)
	}
	require.Zero(t, cluster.Member(0).Dials())
}

// TestAutoSyncIsOff: it would let the client choose another member. The official function leaves it on.
func TestAutoSyncIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, cfg := start(t)
		cfg.AutoSyncInterval = time.Millisecond
		cluster.Once("Snapshot", func(c *fakeetcd.Call) {
			ctx, cancel := context.WithTimeout(c.Context(), time.Second) // ample time for the first update
			defer cancel()
			assert.ErrorIs(t, cluster.Wait(ctx, "MemberList", 1), context.DeadlineExceeded)
			c.Execute()
		})
		_, err := snapshot.SaveWithVersion(t.Context(), zap.NewNop(), cfg, target(t))
		require.NoError(t, err)
		require.Zero(t, cluster.Count("MemberList"))
	})
}

// sending serves a snapshot of which change is given each message by its number, from 0, and returns whether to send it.
func sending(change func(n int, resp *pb.SnapshotResponse) bool) func(*testing.T, *fakeetcd.Call) {
	return func(t *testing.T, c *fakeetcd.Call) {
		n := 0
		c.OnSend(func(m proto.Message) bool {
			resp := proto.Clone(m).(*pb.SnapshotResponse)
			if change(n, resp) {
				assert.NoError(t, c.Send(resp))
			}
			n++
			return false
		})
	}
}

// containing serves a content with a digest that matches.
func containing(content []byte) func(*testing.T, *fakeetcd.Call) {
	return func(t *testing.T, c *fakeetcd.Call) {
		digest := sha256.Sum256(content)
		assert.NoError(t, c.Send(&pb.SnapshotResponse{Blob: append(content, digest[:]...)}))
		c.Answer(nil, nil)
	}
}

// TestWhatIsNoSnapshot: the official function saves what has a size that a snapshot could have.
func TestWhatIsNoSnapshot(t *testing.T) {
	digest := clientv3.ErrSnapshotDigest.Error()
	for name, tt := range map[string]struct {
		serve func(*testing.T, *fakeetcd.Call)
		want  string
	}{
		"a bit flipped": {sending(func(n int, resp *pb.SnapshotResponse) bool {
			if n == 2 {
				resp.Blob[100] ^= 1
			}
			return true
		}), digest},
		"a part missing": {sending(func(n int, _ *pb.SnapshotResponse) bool { return n != 1 }), digest},
		"no digest":      {sending(func(_ int, resp *pb.SnapshotResponse) bool { return len(resp.Blob) != sha256.Size }), digest},
		"nothing":        {sending(func(int, *pb.SnapshotResponse) bool { return false }), digest},
		"empty":          {containing(nil), "no database"},
		"size":           {containing(make([]byte, 513)), "no database"},
		"refused":        {func(_ *testing.T, c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCPermissionDenied) }, rpctypes.ErrPermissionDenied.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, cfg := start(t)
			cluster.Once("Snapshot", func(c *fakeetcd.Call) { tt.serve(t, c) })
			path := target(t)
			_, err := snapshot.SaveWithVersion(t.Context(), zap.NewNop(), cfg, path)
			require.ErrorContains(t, err, tt.want)
			requireUntouched(t, path)
		})
	}
}

// halfway serves the first message of a snapshot, and the others after what follows.
func halfway(t *testing.T, cluster *fakeetcd.Cluster, follows func(*fakeetcd.Call)) {
	t.Helper()
	cluster.On("Snapshot", func(c *fakeetcd.Call) {
		first := true
		c.OnSend(func(m proto.Message) bool {
			if first {
				first = false
				assert.NoError(t, c.Send(m)) // the client has it when Send returns
				follows(c)
				return false
			}
			return true
		})
		c.Execute()
	})
}

func TestConnectionBreaks(t *testing.T) {
	cluster, cfg := start(t)
	halfway(t, cluster, (*fakeetcd.Call).BreakConn)
	path := target(t)
	version, err := snapshot.SaveWithVersion(t.Context(), zap.NewNop(), cfg, path)
	require.ErrorContains(t, err, "the download ended after 32768 bytes")
	require.Equal(t, "3.7.0", version)
	requireUntouched(t, path)
	require.Equal(t, 1, cluster.Count("Snapshot"))
}

func TestContextEnds(t *testing.T) {
	for name, arrange := range map[string]func(t *testing.T, cluster *fakeetcd.Cluster, cfg *clientv3.Config, cancel func()){
		"before": func(_ *testing.T, _ *fakeetcd.Cluster, _ *clientv3.Config, cancel func()) { cancel() },
		// The official function waits for ever: its context does not reach the client.
		"while a token is fetched": func(_ *testing.T, cluster *fakeetcd.Cluster, cfg *clientv3.Config, cancel func()) {
			cfg.Username, cfg.Password = "root", "secret"
			cluster.On("Authenticate", func(c *fakeetcd.Call) {
				cancel()
				<-c.Context().Done()
			})
		},
		"before the first message": func(_ *testing.T, cluster *fakeetcd.Cluster, _ *clientv3.Config, cancel func()) {
			cluster.On("Snapshot", func(c *fakeetcd.Call) {
				cancel()
				<-c.Context().Done()
			})
		},
		"halfway": func(t *testing.T, cluster *fakeetcd.Cluster, _ *clientv3.Config, cancel func()) {
			halfway(t, cluster, func(c *fakeetcd.Call) {
				cancel()
				<-c.Context().Done()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, cfg := start(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			arrange(t, cluster, &cfg, cancel)
			path := target(t)
			_, err := snapshot.SaveWithVersion(ctx, zap.NewNop(), cfg, path)
			require.ErrorIs(t, err, context.Canceled)
			requireUntouched(t, path)
		})
	}
}

// TestFileSystem: what cannot be written is known before anything is downloaded.
func TestFileSystem(t *testing.T) {
	cluster, cfg := start(t)
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		path, want string
		is         error
	}{
		"missing directory": {filepath.Join(dir, "missing", "etcd.db"), "missing", fs.ErrNotExist},
		"a directory":       {dir, "is a directory", nil},
		"no name":           {"", "path of the file is empty", nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := snapshot.SaveWithVersion(t.Context(), zap.NewNop(), cfg, tt.path)
			require.ErrorContains(t, err, tt.want)
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
			}
		})
	}
	require.Zero(t, cluster.Count("Snapshot"))
}

// TestWhatIsNotOurs: the official function removes whatever has the name of its part file, directories
// and their content included.
func TestWhatIsNotOurs(t *testing.T) {
	_, cfg := start(t)
	path := filepath.Join(t.TempDir(), "etcd.db")
	precious := filepath.Join(path+".part", "precious")
	require.NoError(t, os.Mkdir(filepath.Dir(precious), 0o700))
	require.NoError(t, os.WriteFile(precious, nil, 0o600))
	_, err := snapshot.SaveWithVersion(t.Context(), zap.NewNop(), cfg, path)
	require.FileExists(t, precious)
	require.NoError(t, err)
}

// TestDownloadsToOnePath: with the official function, they write to one part file, and the last to
// finish fails.
func TestDownloadsToOnePath(t *testing.T) {
	const downloads = 4
	cluster, cfg := start(t)
	release := make(chan struct{})
	halfway(t, cluster, func(c *fakeetcd.Call) { assert.NoError(t, c.Hold(release)) })
	path := target(t)
	results := make(chan error, downloads)
	for range downloads {
		go func() {
			_, err := snapshot.SaveWithVersion(t.Context(), zap.NewNop(), cfg, path)
			results <- err
		}()
	}
	require.NoError(t, cluster.Wait(t.Context(), "Snapshot", downloads))
	close(release)
	for range downloads {
		require.NoError(t, <-results)
	}
	requireSnapshot(t, path)
	requireAlone(t, path)
}

func TestConfigWithSlog(t *testing.T) {
	_, cfg := start(t)
	cfg.Slog = slog.New(slog.DiscardHandler)
	_, err := snapshot.SaveWithVersion(t.Context(), zap.NewNop(), cfg, target(t))
	require.NoError(t, err)
}
