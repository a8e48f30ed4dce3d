package idempotent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestMetrics(t *testing.T) {
	inBubble(t, Config{Lanes: 3}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
		values := func() map[string]float64 {
			all := map[string]float64{}
			for _, m := range kv.Metrics() {
				name := m.Name
				for _, label := range m.Labels {
					name += " " + label.Value
				}
				all[name] = m.Value
			}
			return all
		}
		before := values() // New has tried a lane
		_, err := kv.Put(t.Context(), "k", "v")
		require.NoError(t, err)
		cluster.Once("Txn", func(c *fakeetcd.Call) {
			require.EqualValues(t, 1, values()["quorate.idempotent.lanes"])
			answerLost(c)
		})
		_, err = kv.Put(t.Context(), "k", "v2")
		require.NoError(t, err)
		after := values()
		require.EqualValues(t, 2, after["quorate.idempotent.writes executed"]-before["quorate.idempotent.writes executed"])
		require.EqualValues(t, 1, after["quorate.idempotent.settled"])
		require.EqualValues(t, 0, after["quorate.idempotent.writes unknown"])
		require.EqualValues(t, 1, after["quorate.idempotent.leases"])
		require.EqualValues(t, 3, after["quorate.idempotent.lane_limit"])
		require.EqualValues(t, 0, after["quorate.idempotent.lanes"])
	})
}
