package otel_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
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

// sums returns the values of a counter by their attributes.
func sums(t *testing.T, m metricdata.Metrics, unit string) map[string]int64 {
	t.Helper()
	require.Equal(t, unit, m.Unit)
	require.NotEmpty(t, m.Description)
	sum, ok := m.Data.(metricdata.Sum[int64])
	require.True(t, ok, "%s is a %T", m.Name, m.Data)
	values := map[string]int64{}
	for _, p := range sum.DataPoints {
		values[p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
	}
	return values
}

// states returns the states that are reported, and requires that the others are too.
func states(t *testing.T, reader *sdk.ManualReader) []string {
	t.Helper()
	m, ok := collect(t, reader)["quorate.client.endpoint.state"]
	if !ok {
		return nil
	}
	var current []string
	all := sums(t, m, "{endpoint}")
	for _, state := range []string{"a", "b"} {
		for s := health.Unknown; s <= health.Dead; s++ {
			key := fmt.Sprintf("quorate.client.name=orders,quorate.endpoint.name=%s,quorate.endpoint.state=%v", state, s)
			if all[key] == 1 {
				current = append(current, state+" "+s.String())
			}
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

	all := collect(t, reader)
	const who = "quorate.client.name=orders"
	require.Equal(t, map[string]int64{
		who + ",quorate.connection=calls,quorate.endpoint.name=a":     2,
		who + ",quorate.connection=streams,quorate.endpoint.name=a":   1,
		who + ",quorate.connection=bulk,quorate.endpoint.name=b":      1,
		who + ",quorate.connection=calls,quorate.endpoint.name=other": 2,
	}, sums(t, all["quorate.client.picks"], "{attempt}"))
	require.Equal(t, map[string]int64{
		who + ",quorate.ejection.reason=unresponsive,quorate.endpoint.name=b": 1,
	}, sums(t, all["quorate.client.ejections"], "{ejection}"))
	require.Equal(t, map[string]int64{
		who + ",quorate.endpoint.name=b": 1,
	}, sums(t, all["quorate.client.readmissions"], "{readmission}"))
	require.Equal(t, map[string]int64{
		who + ",quorate.endpoint.name=b,quorate.endpoint.state=dead": 1,
	}, sums(t, all["quorate.client.endpoint.state_changes"], "{change}"))
	require.Equal(t, map[string]int64{
		who + ",quorate.endpoint.name=b":     1,
		who + ",quorate.endpoint.name=other": 1,
	}, sums(t, all["quorate.client.failovers"], "{failover}"))
}

func TestStatesOfEndpoints(t *testing.T) {
	reader, provider := newProvider()
	o := newObserver(t, provider, "orders")
	require.Empty(t, states(t, reader))
	o.EndpointsSet([]string{"a", "b"})
	o.StateChanged(health.Change{Endpoint: "b", To: health.Dead})
	require.Equal(t, []string{"a unknown", "b dead"}, states(t, reader))
	o.StateChanged(health.Change{Endpoint: "b", To: health.Serving})
	require.Equal(t, []string{"a unknown", "b serving"}, states(t, reader))
	o.EndpointsSet([]string{"b"})
	require.Equal(t, []string{"b serving"}, states(t, reader))
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

	all := collect(t, reader)
	for name, want := range map[string]struct {
		unit   string
		values map[string]int64
	}{
		"retries":          {"{retry}", map[string]int64{"quorate.retry.class=NoLeader,rpc.method=etcdserverpb.KV/Range": 2}},
		"hedges":           {"{hedge}", map[string]int64{"rpc.method=etcdserverpb.KV/Range": 2}},
		"hedge_wins":       {"{hedge}", map[string]int64{"rpc.method=etcdserverpb.KV/Range": 1}},
		"unknown_outcomes": {"{call}", map[string]int64{"rpc.method=etcdserverpb.KV/Put": 1}},
		"watches_resumed":  {"{watch}", map[string]int64{"": 40}},
		"leases_lost":      {"{lease}", map[string]int64{"": 1}},
	} {
		require.Equal(t, want.values, sums(t, all["quorate.client."+name], want.unit), name)
	}
	for name, want := range map[string]struct {
		count uint64
		sum   float64
	}{"watch.gap": {1, 0.3}, "lease.margin": {2, 40}} {
		m := all["quorate.client."+name]
		require.Equal(t, "s", m.Unit)
		points := m.Data.(metricdata.Histogram[float64]).DataPoints
		require.Len(t, points, 1)
		require.Equal(t, want.count, points[0].Count, name)
		require.InDelta(t, want.sum, points[0].Sum, 1e-9, name)
	}
	require.EqualValues(t, 1, all["quorate.client.lease.margin"].Data.(metricdata.Histogram[float64]).DataPoints[0].BucketCounts[0],
		"the renewal that came too late")
}

func TestClientsOfOneProvider(t *testing.T) {
	reader, provider := newProvider()
	first, second := newObserver(t, provider, "first"), newObserver(t, provider, "second")
	for _, o := range []*quorateotel.Observer{first, second, second} {
		o.EndpointsSet([]string{"a"})
		o.Readmitted(observe.Readmission{Endpoint: "a"})
	}
	all := collect(t, reader)
	require.Equal(t, map[string]int64{
		"quorate.client.name=first,quorate.endpoint.name=a":  1,
		"quorate.client.name=second,quorate.endpoint.name=a": 2,
	}, sums(t, all["quorate.client.readmissions"], "{readmission}"))
	require.Len(t, sums(t, all["quorate.client.endpoint.state"], "{endpoint}"), 2*(int(health.Dead)+1))
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
	require.Equal(t, []string{"a unknown"}, states(t, reader))
	total := int64(0)
	for _, n := range sums(t, collect(t, reader)["quorate.client.picks"], "{attempt}") {
		total += n
	}
	require.EqualValues(t, 1500, total)
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

func TestResolver(t *testing.T) {
	reader, provider := newProvider()
	o := newObserver(t, provider, "")
	o.Resolved(observe.Resolution{Target: "dns:///orders", Endpoints: 3})
	o.Resolved(observe.Resolution{Target: "dns:///orders", Endpoints: 4})
	o.Resolved(observe.Resolution{Target: "dns:///orders", Endpoints: 4, Err: errors.New("no answer")})
	all := collect(t, reader)
	require.Equal(t, map[string]int64{"": 2}, sums(t, all["quorate.client.resolver.updates"], "{update}"))
	require.Equal(t, map[string]int64{"": 1}, sums(t, all["quorate.client.resolver.errors"], "{error}"))
	gauge, ok := all["quorate.client.resolver.endpoints"].Data.(metricdata.Gauge[int64])
	require.True(t, ok)
	require.EqualValues(t, 4, gauge.DataPoints[0].Value)
}
