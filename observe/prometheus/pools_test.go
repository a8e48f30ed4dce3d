package prometheus_test

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/clientv3/batch"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/etcdtest"
	quorateprom "github.com/quorate/quorate/observe/prometheus"
	"github.com/quorate/quorate/pool"
	"github.com/quorate/quorate/pool/grpcpool"
)

// Two pools share a registry, beside a pool of connections.
func TestPools(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	for _, name := range []string{"one", "two"} {
		p, err := pool.New(pool.Config[int]{Create: func(context.Context) (int, error) { return 0, nil }, MaxSize: 2})
		require.NoError(t, err)
		defer p.Close()
		require.NoError(t, reg.Register(quorateprom.NewPoolCollector(name, p.Stats)))
		if name == "one" {
			r, err := p.Acquire(t.Context())
			require.NoError(t, err)
			defer r.Release()
		}
	}
	conn, err := grpcpool.NewClient("passthrough:///10.0.0.1:80", grpcpool.Config{TransportCredentials: insecure.NewCredentials()},
		grpc.WithUserAgent("test"))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, reg.Register(quorateprom.NewConnectionPoolCollector("backend", conn.Stats)))
	require.Equal(t, map[string]float64{"quorate_pool_acquired_total pool=one": 1, "quorate_pool_acquired_total pool=two": 0}, of(gathered(t, reg, ""), "quorate_pool_acquired_total"))
	resources := map[string]float64{}
	for _, state := range []string{"borrowed", "creating", "destroying", "idle"} {
		resources["quorate_pool_resources pool=one state="+state], resources["quorate_pool_resources pool=two state="+state] = 0, 0
	}
	resources["quorate_pool_resources pool=one state=borrowed"] = 1
	require.Equal(t, resources, of(gathered(t, reg, ""), "quorate_pool_resources"))
	require.Equal(t, map[string]float64{
		"quorate_grpcpool_calls_total class=bulk pool=backend": 0, "quorate_grpcpool_calls_total class=streams pool=backend": 0, "quorate_grpcpool_calls_total class=unary pool=backend": 0,
	}, of(gathered(t, reg, ""), "quorate_grpcpool_calls_total"))
	require.Len(t, of(gathered(t, reg, ""), "quorate_pool_wait_time_seconds_total"), 2)
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// The calls of a client share RPCs and are served from memory.
func TestKV(t *testing.T) {
	client := etcdtest.Fake(t).Client

	registry := prometheus.NewPedanticRegistry()
	shared := batch.New(client, batch.Config{JoinReads: true})
	registry.MustRegister(quorateprom.NewSourceCollector("orders", shared))
	cached, err := cache.New(client, cache.Config{Prefixes: []string{"config/"}})
	require.NoError(t, err)
	defer cached.Close()
	registry.MustRegister(quorateprom.NewSourceCollector("orders", cached))

	require.NoError(t, cached.WaitSynced(t.Context()))
	_, err = cached.Get(t.Context(), "config/a")
	require.NoError(t, err)
	_, err = shared.Get(t.Context(), "orders/1")
	require.NoError(t, err)
	require.Equal(t, map[string]float64{
		"quorate_batch_rpcs_total kind=get size=1": 1, "quorate_batch_rpcs_total kind=get size=4": 0, "quorate_batch_rpcs_total kind=get size=16": 0,
		"quorate_batch_rpcs_total kind=get size=64": 0, "quorate_batch_rpcs_total kind=get size=256": 0, "quorate_batch_rpcs_total kind=get size=more": 0,
		"quorate_cache_loads_total": 1,
	}, of(gathered(t, registry, "orders"), "quorate_batch_rpcs_total", "quorate_cache_loads_total"))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}
