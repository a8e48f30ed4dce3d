package otel_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
	quorateotel "github.com/quorate/quorate/observe/otel"
)

// points returns the number of values of a histogram, by attributes.
func points[N int64 | float64](t *testing.T, m metricdata.Metrics, unit string, buckets int) map[string]metricdata.HistogramDataPoint[N] {
	t.Helper()
	require.Equal(t, unit, m.Unit)
	h, ok := m.Data.(metricdata.Histogram[N])
	require.True(t, ok, "%s is a %T", m.Name, m.Data)
	all := map[string]metricdata.HistogramDataPoint[N]{}
	for _, p := range h.DataPoints {
		require.Len(t, p.Bounds, buckets)
		all[p.Attributes.Encoded(attribute.DefaultEncoder())] = p
	}
	return all
}

func TestDurationsHaveGRPCsNames(t *testing.T) {
	reader, provider := newProvider()
	o := newObserver(t, provider, "orders")
	o.Picked(observe.Pick{Endpoint: "a", Method: rangeMethod, Conn: observe.ConnCalls})
	o.Attempted(observe.Attempt{Endpoint: "a", Method: rangeMethod, Conn: observe.ConnCalls, Took: time.Second, Err: status.Error(codes.Unavailable, "")})
	o.Called(observe.Call{Method: rangeMethod, Took: 2 * time.Second, Retries: 2, Hedged: true, Paused: time.Second})
	o.Called(observe.Call{Method: rangeMethod, Took: time.Second, Err: errors.New("no status")})
	all := collect(t, reader)

	const method, client = "grpc.method=etcdserverpb.KV/Range", "quorate.client.name=orders"
	calls := points[float64](t, all["grpc.client.call.duration"], "s", 41)
	require.Len(t, calls, 2)
	require.InDelta(t, 2, calls[method+",grpc.status=OK,"+client].Sum, 0)
	require.InDelta(t, 1, calls[method+",grpc.status=UNKNOWN,"+client].Sum, 0)
	attempts := points[float64](t, all["grpc.client.attempt.duration"], "s", 41)
	require.InDelta(t, 1, attempts[method+",grpc.status=UNAVAILABLE,"+client].Sum, 0)
	require.Equal(t, map[string]int64{method + "," + client: 1}, sums(t, all["grpc.client.attempt.started"], "{attempt}"))
	require.EqualValues(t, 2, points[int64](t, all["grpc.client.call.retries"], "{retry}", 5)[method+","+client].Sum)
	require.EqualValues(t, 1, points[int64](t, all["grpc.client.call.hedges"], "{hedge}", 5)[method+","+client].Sum)
	require.InDelta(t, 1, points[float64](t, all["grpc.client.call.retry_delay"], "s", 41)[method+","+client].Sum, 0)
}

func TestMethodsAreBounded(t *testing.T) {
	reader, provider := newProvider()
	o := newObserver(t, provider, "orders")
	for i := range 1000 {
		method := fmt.Sprintf("/user.Service/Method%d", i)
		o.Called(observe.Call{Method: method})
		o.Retried(observe.Retry{Method: method})
		o.HedgeSent(observe.Hedge{Method: method})
		o.HedgeWon(observe.Hedge{Method: method})
		o.OutcomeUnknown(observe.UnknownOutcome{Method: method})
	}
	all := collect(t, reader)
	for _, name := range []string{"retries", "hedges", "hedge_wins", "unknown_outcomes"} {
		m := all["quorate.client."+name]
		require.Len(t, sums(t, m, m.Unit), 101, name)
	}
	calls := points[float64](t, all["grpc.client.call.duration"], "s", 41)
	require.Len(t, calls, 101)
	require.EqualValues(t, 900, calls["grpc.method=other,grpc.status=OK,quorate.client.name=orders"].Count)
}

// client has an endpoint.
type client struct{ endpoint string }

func (c client) Introspect(introspect.Options) introspect.Client {
	return introspect.Client{
		Ready: true, Endpoints: []introspect.Endpoint{{Name: c.endpoint, InFlight: 3}},
		Watches: introspect.Watches{ByState: map[string]int{introspect.WatchPaused: 1}},
		Budgets: []introspect.Budget{{Name: "probe", Left: 9, Max: 10, Used: 5}},
	}
}

func TestAttachedClient(t *testing.T) {
	reader, provider := newProvider()
	observer, err := quorateotel.New(provider, quorateotel.Options{Client: "orders"})
	require.NoError(t, err)
	require.Empty(t, collect(t, reader))
	detach := observer.Attach(client{"a"})
	all := collect(t, reader)
	value := func(name string) map[string]float64 { return values(t, all["quorate.client."+name]) }
	const name = "quorate.client.name=orders"
	require.Equal(t, map[string]float64{name: 1}, value("ready"))
	require.Equal(t, map[string]float64{name + ",quorate.endpoint.name=a": 3}, value("attempts_in_flight"))
	require.Equal(t, map[string]float64{name + ",quorate.watch.state=paused": 1}, value("watches"))
	require.Equal(t, map[string]float64{"quorate.budget.name=probe," + name: 9}, value("budget.left"))
	require.Equal(t, map[string]float64{name: 5}, value("probes"))
	detach()
	require.Empty(t, collect(t, reader))
	observer.Attach(client{"a"})
	require.NoError(t, observer.Close())
	require.Empty(t, collect(t, reader))
}
