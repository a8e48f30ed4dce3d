package otel_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/observe"
	quorateotel "github.com/quorate/quorate/observe/otel"
	"github.com/quorate/quorate/pool"
	"github.com/quorate/quorate/pool/grpcpool"
)

func TestPools(t *testing.T) {
	reader, provider := newProvider()
	for _, name := range []string{"one", "two"} {
		p, err := pool.New(pool.Config[int]{Create: func(context.Context) (int, error) { return 0, nil }, MaxSize: 2})
		require.NoError(t, err)
		defer p.Close()
		registration, err := quorateotel.ObservePool(provider, name, p.Stats)
		require.NoError(t, err)
		defer func() { require.NoError(t, registration.Unregister()) }()
		if name == "one" {
			r, err := p.Acquire(t.Context())
			require.NoError(t, err)
			defer r.Release()
		}
	}
	conn, err := grpcpool.NewClient("passthrough:///10.0.0.1:80", grpcpool.Config{TransportCredentials: insecure.NewCredentials()})
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	registration, err := quorateotel.ObserveConnectionPool(provider, "backend", conn.Stats)
	require.NoError(t, err)

	require.Equal(t, map[string]float64{
		"quorate.pool.acquired {call} quorate.pool.name=one": 1, "quorate.pool.acquired {call} quorate.pool.name=two": 0,
	}, of(gathered(t, reader, ""), "quorate.pool.acquired"))
	require.Len(t, of(gathered(t, reader, ""), "quorate.pool.wait_time s "), 2)
	resources := of(gathered(t, reader, ""), "quorate.pool.resources")
	require.Len(t, resources, 8)
	require.InDelta(t, 1, resources["quorate.pool.resources {resource} quorate.pool.name=one quorate.pool.state=borrowed"], 0)
	require.Len(t, of(gathered(t, reader, ""), "quorate.grpcpool.connections"), 3*4, "three classes, four states")

	require.NoError(t, registration.Unregister())
	require.NotContains(t, collect(t, reader), "quorate.grpcpool.connections")

	_, err = quorateotel.ObservePool(nil, "", nil)
	require.ErrorContains(t, err, "no meter provider")
}

type metrics []observe.Metric

func (m metrics) Metrics() []observe.Metric { return m }

func TestKV(t *testing.T) {
	reader, provider := newProvider()
	registration, err := quorateotel.ObserveSource(provider, "orders", metrics{
		observe.Counter("quorate.cache.gets", "{call}", "Gets.", 7).By("result", "hit"),
	})
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"quorate.cache.gets {call} quorate.kv.result=hit": 7}, gathered(t, reader, "orders"))
	require.NoError(t, registration.Unregister())
}
