package otel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/observe"
	quorateotel "github.com/quorate/quorate/observe/otel"
)

type metrics []observe.Metric

func (m metrics) Metrics() []observe.Metric { return m }

func TestKV(t *testing.T) {
	reader, provider := newProvider()
	registration, err := quorateotel.ObserveKV(provider, "orders", metrics{
		observe.Counter("quorate.cache.gets", "{call}", "Gets.", 7).By("result", "hit"),
	})
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"quorate.cache.gets {call} quorate.kv.result=hit": 7}, gathered(t, reader, "orders"))
	require.NoError(t, registration.Unregister())
}
