package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/snapshot"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/etcd34"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/link"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// start returns a cluster of one member that holds 4 MiB, and the configuration of a client of it.
func start(t *testing.T, binary string) (*lab.Cluster, clientv3.Config) {
	t.Helper()
	cluster := labtest.Start(t, lab.Config{
		Members: 1,
		Binary:  binary,
		Args:    []string{"--snapshot-count=1"}, // of raft, after which the storage version is known
	})
	cfg := clientv3.Config{Endpoints: cluster.Endpoints(), Logger: zap.NewNop()}
	ctx, client := labtest.Context(t), labtest.Client(t, cfg)
	_, err := client.Put(ctx, "key-of-the-snapshot", "v")
	require.NoError(t, err)
	filling := strings.Repeat("v", 1<<20)
	for _, key := range []string{"1", "2", "3", "4"} {
		_, err = client.Put(ctx, key, filling)
		require.NoError(t, err)
	}
	return cluster, cfg
}

// TestSave checks that what is saved is the member's database.
func TestSave(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		binary  func(testing.TB) string
		version string
	}{
		"etcd 3.7": {func(testing.TB) string { return "" }, "3.7.0"},
		"etcd 3.4": {etcd34.Path, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, cfg := start(t, tt.binary(t))
			ctx := labtest.Context(t)
			// A member notes its storage version some seconds after its first start.
			require.Eventually(t, func() bool {
				status, err := cluster.Members()[0].Status(ctx)
				return err == nil && status.StorageVersion == tt.version
			}, labtest.Patience, 50*time.Millisecond)
			path := filepath.Join(t.TempDir(), "etcd.db")
			version, err := snapshot.SaveWithVersion(ctx, zap.NewNop(), cfg, path)
			require.NoError(t, err)
			require.Equal(t, tt.version, version)

			content, err := os.ReadFile(path)
			require.NoError(t, err)
			database := content[:len(content)-sha256.Size]
			digest := sha256.Sum256(database)
			require.Equal(t, digest[:], content[len(database):])
			const magic, offset = 0xED0CDAED, 16 // of a bbolt database, after the header of its first page
			require.Equal(t, uint32(magic), binary.LittleEndian.Uint32(database[offset:]))
			require.True(t, bytes.Contains(database, []byte("key-of-the-snapshot")))
		})
	}
}

// TestLinkFails interrupts a download on its way.
func TestLinkFails(t *testing.T) {
	t.Parallel()
	cluster, cfg := start(t, "")
	l := cluster.ClientLink(cluster.Members()[0])
	for name, state := range map[string]link.State{
		"cut":        link.Cut,
		"blackholed": link.Blackholed, // only gRPC's ping tells: after 10 s of silence, and 5 s without an answer
	} {
		t.Run(name, func(t *testing.T) {
			l.Heal()
			l.Throttle(link.Reverse, 64<<10) // a minute for the whole
			dir := t.TempDir()
			ctx := labtest.Context(t)
			result := make(chan error, 1)
			go func() {
				_, err := snapshot.SaveWithVersion(ctx, zap.NewNop(), cfg, filepath.Join(dir, "etcd.db"))
				result <- err
			}()
			require.Eventually(t, func() bool { return downloaded(t, dir) > 0 }, labtest.Patience, 10*time.Millisecond)
			l.Set(link.Both, link.Condition{State: state})
			require.ErrorContains(t, <-result, "the download ended after")
			require.NoError(t, ctx.Err())
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}

// downloaded returns the size of the files in the directory.
func downloaded(t *testing.T, dir string) (size int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil { // it may be gone by now
			size += info.Size()
		}
	}
	return size
}
