package fakeetcd

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A frozen member answers no call, on old connections and on new ones, until it goes on. Then it sees which were closed.
func TestFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, kv := startKV(t)
		m := cluster.Member(0)
		_, err := kv.Put(t.Context(), put("k", "v"))
		require.NoError(t, err)
		m.Freeze()
		m.Freeze()
		done := make(chan error, 2)
		for _, kv := range []pb.KVClient{kv, kvOf(t, m)} {
			go func() {
				_, err := kv.Range(t.Context(), get("k"))
				done <- err
			}()
		}
		closed, err := cluster.DialContext(t.Context(), m.Addr())
		require.NoError(t, err)
		require.NoError(t, closed.Close())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Empty(t, done)
		assert.Zero(t, cluster.Count("Range"))
		assert.Equal(t, 3, m.Connections())
		m.Continue()
		m.Continue()
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		synctest.Wait()
		assert.Equal(t, 2, m.Connections())
	})
}

// The calls and connections of a frozen member end with the cluster.
func TestCloseWhileFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, kv := startKV(t)
		cluster.Member(0).Freeze()
		done := make(chan error)
		go func() {
			_, err := kv.Range(t.Context(), get("k"))
			done <- err
		}()
		synctest.Wait()
		assert.Equal(t, 1, cluster.Member(0).Connections())
		cluster.Close()
		assert.Equal(t, codes.Unavailable, status.Code(<-done))
	})
}
