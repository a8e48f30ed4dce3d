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
	require.Equal(t, map[string]float64{
		"client=orders kind=get size=1": 1, "client=orders kind=get size=4": 0, "client=orders kind=get size=16": 0,
		"client=orders kind=get size=64": 0, "client=orders kind=get size=256": 0, "client=orders kind=get size=more": 0,
	}, values(t, registry, "quorate_batch_rpcs_total"))
	require.Equal(t, map[string]float64{"client=orders": 1}, values(t, registry, "quorate_cache_loads_total"))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}
