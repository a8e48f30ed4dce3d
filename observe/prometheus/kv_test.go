package prometheus_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3/batch"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/etcdtest"
	quorateprom "github.com/quorate/quorate/observe/prometheus"
)

// The calls of a client share RPCs and are served from memory.
func TestKV(t *testing.T) {
	client := etcdtest.Fake(t).Client

	registry := prometheus.NewPedanticRegistry()
	shared := batch.New(client, batch.Config{JoinReads: true})
	registry.MustRegister(quorateprom.NewKVCollector("orders", shared))
	cached, err := cache.New(client, cache.Config{Prefixes: []string{"config/"}})
	require.NoError(t, err)
	defer cached.Close()
	registry.MustRegister(quorateprom.NewKVCollector("orders", cached))

	require.NoError(t, cached.WaitSynced(t.Context()))
	_, err = cached.Get(t.Context(), "config/a")
	require.NoError(t, err)
	_, err = shared.Get(t.Context(), "orders/1")
	require.NoError(t, err)
	requireMetrics(t, registry, `
# HELP quorate_batch_rpcs_total RPCs of the calls, by the most calls that one of the size has.
# TYPE quorate_batch_rpcs_total counter
quorate_batch_rpcs_total{client="orders",kind="get",size="1"} 1
quorate_batch_rpcs_total{client="orders",kind="get",size="16"} 0
quorate_batch_rpcs_total{client="orders",kind="get",size="256"} 0
quorate_batch_rpcs_total{client="orders",kind="get",size="4"} 0
quorate_batch_rpcs_total{client="orders",kind="get",size="64"} 0
quorate_batch_rpcs_total{client="orders",kind="get",size="more"} 0
# HELP quorate_cache_loads_total Complete reads of a prefix.
# TYPE quorate_cache_loads_total counter
quorate_cache_loads_total{client="orders"} 1
`, "quorate_batch_rpcs_total", "quorate_cache_loads_total")
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}
