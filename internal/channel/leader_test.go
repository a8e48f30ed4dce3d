package channel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// putsAt returns how many puts each member receives.
func putsAt(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, n int) map[string]int {
	t.Helper()
	before := len(cluster.Calls("Put"))
	for range n {
		require.NoError(t, putK(t, c, time.Second))
	}
	at := make(map[string]int)
	for _, call := range cluster.Calls("Put")[before:] {
		at[call.Member.Name()]++
	}
	return at
}

// Members are asked for their role once per connection and once per term.
func TestLeaderIsFoundWithoutPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := startCluster(t, 3)
		cluster.SetLeader(cluster.Member(1))
		c := newTestChannel(t, Config{
			Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Balancing: Balancing{Strategy: "leader"},
		})
		require.NoError(t, putK(t, c, time.Second))
		synctest.Wait()
		assert.LessOrEqual(t, cluster.Count("Status"), 6, "one per connection, and perhaps one before it")
		assert.Equal(t, map[string]int{"member-1": 30}, putsAt(t, cluster, c, 30))

		asked := cluster.Count("Status")
		for range 20 {
			assert.Equal(t, map[string]int{"member-1": 30}, putsAt(t, cluster, c, 30))
			time.Sleep(time.Second)
		}
		assert.Equal(t, asked, cluster.Count("Status"))

		cluster.SetLeader(cluster.Member(2))
		require.NoError(t, putK(t, c, time.Second))
		synctest.Wait()
		assert.Equal(t, map[string]int{"member-2": 30}, putsAt(t, cluster, c, 30))
		assert.LessOrEqual(t, cluster.Count("Status"), asked+3)

		asked = cluster.Count("Status")
		for range 10 {
			cluster.Member(0).BreakConnections()
			time.Sleep(time.Second)
		}
		assert.LessOrEqual(t, cluster.Count("Status"), asked+10, "one per connection")
		assert.Equal(t, map[string]int{"member-2": 30}, putsAt(t, cluster, c, 30))

		asked = cluster.Count("Status")
		cluster.Member(2).Stop()
		cluster.SetLeader(cluster.Member(0))
		synctest.Wait()
		require.NoError(t, putK(t, c, time.Second))
		synctest.Wait()
		assert.Equal(t, map[string]int{"member-0": 30}, putsAt(t, cluster, c, 30))
		assert.LessOrEqual(t, cluster.Count("Status"), asked+3)
	})
}
