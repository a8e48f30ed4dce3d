package otel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/observe"
)

// Picks are counted before and after the endpoint is removed and the Observer closed.
func TestNoPickIsLost(t *testing.T) {
	reader, provider := newProvider()
	o := newObserver(t, provider, "orders")
	o.EndpointsSet([]string{"a"})
	pick := func() { o.Picked(observe.Pick{Endpoint: "a", Method: rangeMethod, Conn: observe.ConnBulk}) }
	requireCounts := func(a, others, started float64) {
		t.Helper()
		all := gathered(t, reader, "orders")
		require.InDelta(t, a, all["picks {attempt} quorate.connection=bulk quorate.endpoint.name=a"], 0)
		require.InDelta(t, others, all["picks {attempt} quorate.connection=bulk quorate.endpoint.name=other"], 0)
		require.InDelta(t, started, all["grpc.client.attempt.started {attempt} grpc.method=etcdserverpb.KV/Range"], 0)
	}
	pick()
	requireCounts(1, 0, 1)
	requireCounts(1, 0, 1)
	pick()
	o.EndpointsSet(nil)
	requireCounts(2, 0, 2)
	pick()
	requireCounts(2, 1, 3)
	o.EndpointsSet([]string{"a"})
	pick()
	require.NoError(t, o.Close())
	requireCounts(3, 1, 4)
	pick()
	requireCounts(4, 1, 5)
}
