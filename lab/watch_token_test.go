package lab_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	quorate "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/etcd34"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// A member that restarts forgets its tokens. Before 3.5.6 it then says that the watch is not permitted.
func TestWatchesOutliveTheirTokenOnOldServers(t *testing.T) {
	t.Parallel()
	cluster := start(t, lab.Config{Members: 1, Binary: etcd34.Path(t)})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, c := labtest.EnableAuth(ctx, t, cluster, "user", quorate.PermReadWrite, "mine/")
	watches := make([]quorate.WatchChan, 20)
	for i := range watches {
		watches[i] = c.Watch(ctx, fmt.Sprintf("mine/%d", i))
	}
	for range 2 {
		m := cluster.Members()[0]
		require.NoError(t, m.Kill())
		require.NoError(t, m.Restart(ctx))
		for i, w := range watches {
			key := fmt.Sprintf("mine/%d", i)
			_, err := c.Put(ctx, key, "")
			require.NoError(t, err)
			select {
			case resp, ok := <-w:
				require.True(t, ok && len(resp.Events) == 1, "%v", resp.Err())
				assert.Equal(t, key, string(resp.Events[0].Kv.Key))
			case <-ctx.Done():
				require.Fail(t, "no event")
			}
		}
		resp := <-c.Watch(ctx, "other")
		assert.Equal(t, rpctypes.ErrPermissionDenied, resp.Err(), "a denial that is none of the token's")
	}
}
