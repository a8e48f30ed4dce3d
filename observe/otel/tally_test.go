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
	const (
		attributes = "quorate.client.name=orders,quorate.connection=bulk,quorate.endpoint.name=a"
		others     = "quorate.client.name=orders,quorate.connection=bulk,quorate.endpoint.name=other"
		method     = "grpc.method=etcdserverpb.KV/Range,quorate.client.name=orders"
	)
	requireCounts := func(picks map[string]int64, started int64) {
		t.Helper()
		all := collect(t, reader)
		require.Equal(t, picks, sums(t, all["quorate.client.picks"], "{attempt}"))
		require.Equal(t, map[string]int64{method: started}, sums(t, all["grpc.client.attempt.started"], "{attempt}"))
	}
	pick()
	requireCounts(map[string]int64{attributes: 1}, 1)
	requireCounts(map[string]int64{attributes: 1}, 1)
	pick()
	o.EndpointsSet(nil)
	requireCounts(map[string]int64{attributes: 2}, 2)
	pick()
	requireCounts(map[string]int64{attributes: 2, others: 1}, 3)
	o.EndpointsSet([]string{"a"})
	pick()
	require.NoError(t, o.Close())
	requireCounts(map[string]int64{attributes: 3, others: 1}, 4)
	pick()
	requireCounts(map[string]int64{attributes: 4, others: 1}, 5)
}
