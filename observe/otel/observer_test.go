package otel_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
	quorateotel "github.com/quorate/quorate/observe/otel"
)

const rangeMethod = "/etcdserverpb.KV/Range"

func newObserver(t *testing.T, provider metric.MeterProvider, client string) *quorateotel.Observer {
	t.Helper()
	o, err := quorateotel.New(provider, quorateotel.Options{Client: client})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	return o
}

func newProvider() (*sdk.ManualReader, *sdk.MeterProvider) {
	reader := sdk.NewManualReader()
	return reader, sdk.NewMeterProvider(sdk.WithReader(reader))
}

func collect(t *testing.T, reader *sdk.ManualReader) map[string]metricdata.Metrics {
	t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &data))
	all := map[string]metricdata.Metrics{}
	for _, scope := range data.ScopeMetrics {
		require.Equal(t, "github.com/quorate/quorate/observe/otel", scope.Scope.Name)
		require.NotEmpty(t, scope.Scope.Version)
		for _, m := range scope.Metrics {
			all[m.Name] = m
		}
	}
	return all
}

// gathered returns the values of a client's metrics, or of all metrics if client is "", by name, unit and other attributes. A
// histogram has a count, a sum and a number of buckets.
func gathered(t *testing.T, reader *sdk.ManualReader, client string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for name, m := range collect(t, reader) {
		require.NotEmpty(t, m.Description)
		name = strings.TrimPrefix(name, "quorate.client.") + " " + m.Unit
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			addValues(all, name, client, data.DataPoints)
		case metricdata.Sum[float64]:
			addValues(all, name, client, data.DataPoints)
		case metricdata.Gauge[int64]:
			addValues(all, name, client, data.DataPoints)
		case metricdata.Gauge[float64]:
			addValues(all, name, client, data.DataPoints)
		case metricdata.Histogram[int64]:
			addHistograms(all, name, client, data.DataPoints)
		case metricdata.Histogram[float64]:
			addHistograms(all, name, client, data.DataPoints)
		default:
			require.Fail(t, "unknown data", "%s is a %T", m.Name, m.Data)
		}
	}
	return all
}

// addValues adds the points of a client, or all if client is "".
func addValues[N int64 | float64](all map[string]float64, name, client string, points []metricdata.DataPoint[N]) {
	for _, p := range points {
		if key, ok := keyOf(name, client, p.Attributes); ok {
			all[key] = float64(p.Value)
		}
	}
}

func addHistograms[N int64 | float64](all map[string]float64, name, client string, points []metricdata.HistogramDataPoint[N]) {
	for _, p := range points {
		if key, ok := keyOf(name, client, p.Attributes); ok {
			all[key+" count"], all[key+" sum"], all[key+" buckets"] = float64(p.Count), float64(p.Sum), float64(len(p.Bounds))
		}
	}
}

func keyOf(name, client string, attributes attribute.Set) (key string, ok bool) {
	for _, a := range attributes.ToSlice() {
		if a.Key == "quorate.client.name" {
			ok = a.Value.AsString() == client
		} else {
			name += " " + string(a.Key) + "=" + a.Value.AsString()
		}
	}
	return name, ok || client == ""
}

// of deletes all values but those whose names begin with one of the prefixes.
func of(all map[string]float64, prefixes ...string) map[string]float64 {
	maps.DeleteFunc(all, func(key string, _ float64) bool {
		return !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	})
	return all
}

// states returns the states that are reported, and requires that the others are too.
func states(t *testing.T, reader *sdk.ManualReader) []string {
	t.Helper()
	all := of(gathered(t, reader, "orders"), "endpoint.state {endpoint}")
	current := []string{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if all[key] == 1 {
			current = append(current, strings.TrimPrefix(key, "endpoint.state {endpoint} quorate.endpoint.name="))
		}
	}
	require.Len(t, all, len(current)*(int(health.Dead)+1))
	return current
}

func TestCountersOfEndpoints(t *testing.T) {
	reader, provider := newProvider()
	o := newObserver(t, provider, "orders")
	o.EndpointsSet([]string{"a", "b"})
	for _, p := range []observe.Pick{
		{Endpoint: "a", Conn: observe.ConnCalls},
		{Endpoint: "a", Conn: observe.ConnCalls},
		{Endpoint: "a", Conn: observe.ConnStreams},
		{Endpoint: "a"}, // without a class it is a call
		{Endpoint: "b", Conn: observe.ConnBulk},
		{Endpoint: "elsewhere", Conn: observe.ConnCalls},
		{Endpoint: "somewhere", Conn: observe.ConnCalls},
	} {
		o.Picked(p)
	}
	o.StateChanged(health.Change{Endpoint: "b", To: health.Dead})
	o.StateChanged(health.Change{Endpoint: "elsewhere", To: health.Dead})
	o.Ejected(observe.Ejection{Endpoint: "b", Evidence: health.Evidence{Kind: health.Unresponsive}})
	o.Readmitted(observe.Readmission{Endpoint: "b"})
	o.FailedOver(observe.Failover{From: "b", To: "a"})
	o.FailedOver(observe.Failover{From: "elsewhere", To: "a"})

	require.Equal(t, map[string]float64{
		"picks {attempt} quorate.connection=calls quorate.endpoint.name=a":     3,
		"picks {attempt} quorate.connection=streams quorate.endpoint.name=a":   1,
		"picks {attempt} quorate.connection=bulk quorate.endpoint.name=b":      1,
		"picks {attempt} quorate.connection=calls quorate.endpoint.name=other": 2,

		"ejections {ejection} quorate.ejection.reason=unresponsive quorate.endpoint.name=b": 1,

		"readmissions {readmission} quorate.endpoint.name=b":                                  1,
		"endpoint.state_changes {change} quorate.endpoint.name=b quorate.endpoint.state=dead": 1,
		"failovers {failover} quorate.endpoint.name=b":                                        1,
		"failovers {failover} quorate.endpoint.name=other":                                    1,
	}, of(gathered(t, reader, "orders"), "picks", "ejections", "readmissions", "endpoint.state_changes", "failovers"))
}

func TestStatesOfEndpoints(t *testing.T) {
	reader, provider := newProvider()
	o := newObserver(t, provider, "orders")
	require.Empty(t, states(t, reader))
	o.EndpointsSet([]string{"a", "b"})
	o.StateChanged(health.Change{Endpoint: "b", To: health.Dead})
	require.Equal(t, []string{"a quorate.endpoint.state=unknown", "b quorate.endpoint.state=dead"}, states(t, reader))
	o.StateChanged(health.Change{Endpoint: "b", To: health.Serving})
	require.Equal(t, []string{"a quorate.endpoint.state=unknown", "b quorate.endpoint.state=serving"}, states(t, reader))
	o.EndpointsSet([]string{"b"})
	require.Equal(t, []string{"b quorate.endpoint.state=serving"}, states(t, reader))
	require.NoError(t, o.Close())
	require.Empty(t, states(t, reader))
}

func TestCountersOfCallsAndStreams(t *testing.T) {
	reader, provider := newProvider()
	o := newObserver(t, provider, "")
	o.Retried(observe.Retry{Method: rangeMethod, Class: "NoLeader", Err: errors.New("no leader")})
	o.Retried(observe.Retry{Method: rangeMethod, Class: "NoLeader", Err: errors.New("another text")})
	o.HedgeSent(observe.Hedge{Method: rangeMethod})
	o.HedgeSent(observe.Hedge{Method: rangeMethod})
	o.HedgeWon(observe.Hedge{Method: rangeMethod})
	o.OutcomeUnknown(observe.UnknownOutcome{Method: "/etcdserverpb.KV/Put"})
	o.WatchResumed(observe.WatchResumption{Watches: 40, Gap: 300 * time.Millisecond})
	o.LeaseRenewed(observe.LeaseRenewal{Margin: 40 * time.Second})
	o.LeaseRenewed(observe.LeaseRenewal{Margin: -time.Second})
	o.LeaseLost(observe.LeaseLoss{})
	o.Resolved(observe.Resolution{Target: "dns:///orders", Endpoints: 3})
	o.Resolved(observe.Resolution{Target: "dns:///orders", Endpoints: 4})
	o.Resolved(observe.Resolution{Target: "dns:///orders", Endpoints: 4, Err: errors.New("no answer")})

	require.Equal(t, map[string]float64{
		"retries {retry} quorate.retry.class=NoLeader rpc.method=etcdserverpb.KV/Range": 2,

		"hedges {hedge} rpc.method=etcdserverpb.KV/Range":        2,
		"hedge_wins {hedge} rpc.method=etcdserverpb.KV/Range":    1,
		"unknown_outcomes {call} rpc.method=etcdserverpb.KV/Put": 1,

		"watches_resumed {watch}": 40, "watch.gap s count": 1, "watch.gap s sum": 0.3, "watch.gap s buckets": 12,
		"leases_lost {lease}": 1, "lease.margin s count": 2, "lease.margin s sum": 40, "lease.margin s buckets": 13,

		"resolver.updates {update}": 2, "resolver.errors {error}": 1, "resolver.endpoints {endpoint}": 4,
	}, gathered(t, reader, ""))
	margins := collect(t, reader)["quorate.client.lease.margin"].Data.(metricdata.Histogram[float64]).DataPoints
	require.EqualValues(t, 1, margins[0].BucketCounts[0], "the renewal that came too late")
}

func TestClientsOfOneProvider(t *testing.T) {
	reader, provider := newProvider()
	first, second := newObserver(t, provider, "first"), newObserver(t, provider, "second")
	for _, o := range []*quorateotel.Observer{first, second, second} {
		o.EndpointsSet([]string{"a"})
		o.Readmitted(observe.Readmission{Endpoint: "a"})
	}
	for client, want := range map[string]float64{"first": 1, "second": 2} {
		all := gathered(t, reader, client)
		require.InDelta(t, want, all["readmissions {readmission} quorate.endpoint.name=a"], 0, client)
		require.Len(t, of(all, "endpoint.state {endpoint}"), int(health.Dead)+1)
	}
}

func TestNewRefuses(t *testing.T) {
	_, err := quorateotel.New(nil, quorateotel.Options{})
	require.ErrorContains(t, err, "no meter provider")
	_, err = quorateotel.New(brokenProvider{}, quorateotel.Options{})
	require.ErrorIs(t, err, errMeter)
}

var errMeter = errors.New("no room for a counter")

type brokenProvider struct{ noop.MeterProvider }

func (brokenProvider) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{} }

type brokenMeter struct{ noop.Meter }

func (brokenMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errMeter
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	reader, provider := newProvider()
	o := newObserver(t, provider, "orders")
	var busy sync.WaitGroup
	for range 3 {
		busy.Go(func() {
			for range 500 {
				o.Picked(observe.Pick{Endpoint: "b", Conn: observe.ConnCalls})
				o.StateChanged(health.Change{Endpoint: "b", To: health.Dead})
			}
		})
	}
	for range 50 {
		o.EndpointsSet([]string{"a", "b"})
		collect(t, reader)
		o.EndpointsSet([]string{"a"})
	}
	busy.Wait()
	require.Equal(t, []string{"a quorate.endpoint.state=unknown"}, states(t, reader))
	total := 0.
	for _, n := range of(gathered(t, reader, "orders"), "picks") {
		total += n
	}
	require.InDelta(t, 1500, total, 0)
}

// BenchmarkGet measures the hooks of a get.
func BenchmarkGet(b *testing.B) {
	_, provider := newProvider()
	o, err := quorateotel.New(provider, quorateotel.Options{Client: "orders"})
	require.NoError(b, err)
	defer o.Close()
	o.EndpointsSet([]string{"a"})
	b.ReportAllocs()
	for b.Loop() {
		o.Picked(observe.Pick{Endpoint: "a", Method: rangeMethod, Conn: observe.ConnCalls})
		o.Attempted(observe.Attempt{Endpoint: "a", Method: rangeMethod, Conn: observe.ConnCalls, Took: time.Millisecond})
		o.Called(observe.Call{Method: rangeMethod, Took: time.Millisecond})
	}
}

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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDurationsHaveGRPCsNames(t *testing.T) {
	reader, provider := newProvider()
	o := newObserver(t, provider, "orders")
	o.Picked(observe.Pick{Endpoint: "a", Method: rangeMethod, Conn: observe.ConnCalls})
	o.Attempted(observe.Attempt{Endpoint: "a", Method: rangeMethod, Conn: observe.ConnCalls, Took: time.Second, Err: status.Error(codes.Unavailable, "")})
	o.Called(observe.Call{Method: rangeMethod, Took: 2 * time.Second, Retries: 2, Hedged: true, Paused: time.Second})
	o.Called(observe.Call{Method: rangeMethod, Took: time.Second, Err: errors.New("no status")})
	const method = " grpc.method=etcdserverpb.KV/Range"
	want := map[string]float64{"grpc.client.attempt.started {attempt}" + method: 1}
	for histogram, h := range map[string]struct{ sum, buckets float64 }{
		"grpc.client.call.duration s" + method + " grpc.status=OK":             {2, 41},
		"grpc.client.call.duration s" + method + " grpc.status=UNKNOWN":        {1, 41},
		"grpc.client.attempt.duration s" + method + " grpc.status=UNAVAILABLE": {1, 41},
		"grpc.client.call.retries {retry}" + method:                            {2, 5},
		"grpc.client.call.hedges {hedge}" + method:                             {1, 5},
		"grpc.client.call.retry_delay s" + method:                              {1, 41},
	} {
		want[histogram+" count"], want[histogram+" sum"], want[histogram+" buckets"] = 1, h.sum, h.buckets
	}
	require.Equal(t, want, of(gathered(t, reader, "orders"), "grpc."))
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
	for _, name := range []string{"retries", "hedges", "hedge_wins", "unknown_outcomes"} {
		require.Len(t, of(gathered(t, reader, "orders"), name+" "), 101, name)
	}
	calls := of(gathered(t, reader, "orders"), "grpc.client.call.duration")
	require.Len(t, calls, 3*101)
	require.InDelta(t, 900, calls["grpc.client.call.duration s grpc.method=other grpc.status=OK count"], 0)
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
	all := gathered(t, reader, "orders")
	for name, want := range map[string]float64{
		"ready 1": 1, "attempts_in_flight {attempt} quorate.endpoint.name=a": 3, "watches {watch} quorate.watch.state=paused": 1,
		"budget.left {attempt} quorate.budget.name=probe": 9, "probes {probe}": 5,
	} {
		require.InDelta(t, want, all[name], 0, name)
	}
	detach()
	require.Empty(t, collect(t, reader))
	observer.Attach(client{"a"})
	require.NoError(t, observer.Close())
	require.Empty(t, collect(t, reader))
}
