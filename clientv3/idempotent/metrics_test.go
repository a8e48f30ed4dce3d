package idempotent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestMetrics(t *testing.T) {
	inBubble(t, Config{Lanes: 3}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
		values := func() map[string]int {
			all := map[string]int{}
			for _, m := range kv.Metrics() {
				name := m.Name
				for _, label := range m.Labels {
					name += " " + label.Value
				}
				all[name] = int(m.Value)
			}
			return all
		}
		before := values() // New has tried a lane
		_, err := kv.Put(t.Context(), "k", "v")
		require.NoError(t, err)
		cluster.Once("Txn", func(c *fakeetcd.Call) {
			require.Equal(t, 1, values()["quorate.idempotent.lanes"])
			answerLost(c)
		})
		_, err = kv.Put(t.Context(), "k", "v2")
		require.NoError(t, err)
		after := values()
		require.Equal(t, 2, after["quorate.idempotent.writes executed"]-before["quorate.idempotent.writes executed"])
		require.Equal(t, 1, after["quorate.idempotent.settled"])
		require.Zero(t, after["quorate.idempotent.writes unknown"])
		require.Equal(t, 1, after["quorate.idempotent.leases"])
		require.Equal(t, 3, after["quorate.idempotent.lane_limit"])
		require.Zero(t, after["quorate.idempotent.lanes"])
	})
}
