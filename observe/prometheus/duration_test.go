package prometheus_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
	quorateprom "github.com/quorate/quorate/observe/prometheus"
	"github.com/quorate/quorate/pool"
)

// series returns what there is of a metric, by the values of its labels but the client's.
func series(t *testing.T, reg prometheus.Gatherer, name string) map[string]*dto.Metric {
	t.Helper()
	all := map[string]*dto.Metric{}
	each(t, reg, func(of string, m *dto.Metric) {
		if of != name {
			return
		}
		key := ""
		for _, l := range m.GetLabel() {
			if l.GetName() != "client" {
				key += l.GetValue() + " "
			}
		}
		all[key] = m
	})
	return all
}

// values returns the values of a counter or a gauge, by their labels.
func values(t *testing.T, reg prometheus.Gatherer, name string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	each(t, reg, func(of string, m *dto.Metric) {
		if of != name {
			return
		}
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, l.GetName()+"="+l.GetValue())
		}
		all[strings.Join(labels, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	})
	return all
}

func TestCallDuration(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	o := newObserver(t, reg, "orders")
	for range 3 {
		o.Called(observe.Call{Method: rangeMethod, Took: time.Millisecond})
	}
	o.Called(observe.Call{Method: rangeMethod, Took: 3 * time.Second, Err: status.Error(codes.DeadlineExceeded, "")})
	o.Called(observe.Call{Method: "/etcdserverpb.KV/Put", Err: errors.New("no status")})
	o.Called(observe.Call{Method: "/etcdserverpb.KV/Put", Err: status.Error(77, "")})
	all := series(t, reg, "quorate_client_call_duration_seconds")
	require.Len(t, all, 4)
	require.EqualValues(t, 3, all["OK etcdserverpb.KV/Range "].GetHistogram().GetSampleCount())
	require.InDelta(t, 3, all["DeadlineExceeded etcdserverpb.KV/Range "].GetHistogram().GetSampleSum(), 0)
	require.Contains(t, all, "Unknown etcdserverpb.KV/Put ")
	require.Contains(t, all, "other etcdserverpb.KV/Put ")
}

func TestMethodsAreBounded(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	o := newObserver(t, reg, "orders")
	for i := range 10_000 {
		method := fmt.Sprintf("/user.Service/Method%d", i%5000)
		o.Called(observe.Call{Method: method})
		o.Retried(observe.Retry{Method: method})
		o.HedgeSent(observe.Hedge{Method: method})
		o.HedgeWon(observe.Hedge{Method: method})
		o.OutcomeUnknown(observe.UnknownOutcome{Method: method})
	}
	for _, name := range []string{"retries_total", "hedges_total", "hedges_won_total", "unknown_outcomes_total"} {
		require.Len(t, series(t, reg, "quorate_client_"+name), 101, name)
	}
	all := series(t, reg, "quorate_client_call_duration_seconds")
	require.Len(t, all, 101)
	require.EqualValues(t, 10_000-200, all["OK other "].GetHistogram().GetSampleCount())
}

func TestAttemptDuration(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	o := newObserver(t, reg, "orders")
	o.EndpointsSet([]string{"a", "b"})
	attempt := func(endpoint string, class observe.ConnClass, err error) {
		o.Attempted(observe.Attempt{Endpoint: endpoint, Conn: class, Err: err, Took: time.Millisecond})
	}
	attempt("a", observe.ConnCalls, nil)
	attempt("a", observe.ConnStreams, nil)
	attempt("b", observe.ConnCalls, status.Error(codes.Unavailable, ""))
	attempt("elsewhere", observe.ConnCalls, nil)
	const name = "quorate_client_attempt_duration_seconds"
	all := series(t, reg, name)
	require.Len(t, all, 3)
	require.EqualValues(t, 1, all["OK a "].GetHistogram().GetSampleCount(), "a stream is no call")
	require.Contains(t, all, "Unavailable b ")
	require.Contains(t, all, "OK other ")

	o.EndpointsSet([]string{"a"})
	attempt("b", observe.ConnCalls, nil) // late
	all = series(t, reg, name)
	require.NotContains(t, all, "Unavailable b ")
	require.NotContains(t, all, "OK b ")
}

func TestMeasuringAllocatesNothing(t *testing.T) {
	o := newObserver(t, prometheus.NewRegistry(), "orders")
	o.EndpointsSet([]string{"a"})
	require.Zero(t, testing.AllocsPerRun(100, func() {
		o.Picked(pick("a", observe.ConnCalls))
		o.Attempted(observe.Attempt{Endpoint: "a", Method: rangeMethod, Conn: observe.ConnCalls, Took: time.Millisecond})
		o.Called(observe.Call{Method: rangeMethod, Took: time.Millisecond})
	}))
}

// client shows given connections.
type client struct{ introspect.Client }

func (c *client) Introspect(introspect.Options) introspect.Client { return c.Client }

// An observer has the present state of what is attached to it, and of nothing else.
func TestAttachedClients(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	c := new(client)
	detach := newObserver(t, reg, "orders").Attach(c)
	defer newObserver(t, reg, "users").Attach(new(client))()

	left, ratio := 7.5, 0.5
	c.Client = introspect.Client{
		Ready:     true,
		Endpoints: []introspect.Endpoint{{Name: "a", InFlight: 3, Streams: 2, LatencySeconds: 0.5}, {Name: "a"}},
		Calls:     introspect.Calls{InFlight: 4},
		Watches: introspect.Watches{
			ByState: map[string]int{introspect.WatchPaused: 1}, LagRevisions: 40, BlockedSeconds: 61, BufferedBytes: 70, MaxBufferedBytes: 100, Streams: 1,
		},
		Leases:  introspect.Leases{KeptAlive: 2, Unanswered: 1, LeftSeconds: &left, LeftRatio: &ratio},
		Budgets: []introspect.Budget{{Name: "retry", Left: 3.5, Max: 10}, {Name: "probe", Left: 9, Max: 10, Used: 5}, {Name: "hedge"}},
	}
	want := map[string]float64{
		"ready": 1, "calls_in_flight": 4, "attempts_in_flight a": 3, "streams_open a": 2, "endpoint_latency_seconds a": 0.5,
		"watches paused": 1, "watch_streams": 1, "watch_lag": 40, "watch_blocked_seconds": 61, "watch_buffered_bytes": 70, "watch_buffer_limit_bytes": 100,
		"leases": 2, "leases_unanswered": 1, "lease_left_seconds": 7.5, "lease_left_ratio": 0.5, "probes_total": 5,
		"watches_resumed_total": 0, "leases_lost_total": 0, // of the observer
		"budget_left retry": 3.5, "budget_limit retry": 10, "budget_left probe": 9, "budget_limit probe": 10,
	}
	require.Equal(t, want, gathered(t, reg, "orders"))

	second := newObserver(t, reg, "orders").Attach(&client{introspect.Client{
		Endpoints: []introspect.Endpoint{{Name: "a", InFlight: 1}}, Calls: introspect.Calls{InFlight: 1},
		Watches: introspect.Watches{ByState: map[string]int{introspect.WatchPaused: 2}, LagRevisions: 5, Streams: 1},
		Leases:  introspect.Leases{KeptAlive: 1, LeftSeconds: new(float64), LeftRatio: &left},
		Budgets: []introspect.Budget{{Name: "retry", Left: 1, Max: 10}},
	}})
	both := gathered(t, reg, "orders")
	for name, n := range map[string]float64{
		"ready": 0, "calls_in_flight": 5, "attempts_in_flight a": 4, "watches paused": 3, "watch_streams": 2, "watch_lag": 40,
		"watch_blocked_seconds": 61, "leases": 3, "lease_left_seconds": 0, "lease_left_ratio": 0.5, "budget_left retry": 4.5,
	} {
		require.InDelta(t, n, both[name], 0, name)
	}
	second()
	require.Equal(t, want, gathered(t, reg, "orders"))
	detach()
	require.Len(t, gathered(t, reg, "orders"), 2, "what the observer counts")
}

// Text that is not UTF-8, which Prometheus refuses, is quoted.
func TestTextThatIsNotUTF8(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	o := newObserver(t, reg, "\xfe")
	reg.MustRegister(quorateprom.NewPoolCollector("\xfe", func() (s pool.Stats) { return s }))
	o.EndpointsSet([]string{"a", "\xfe", "\xff"})
	detach := o.Attach(&client{introspect.Client{Endpoints: []introspect.Endpoint{{Name: "\xfe"}, {Name: "\xff"}}}})
	for _, ep := range []string{"\xfe", "\xff"} {
		o.Picked(pick(ep, observe.ConnCalls))
		o.StateChanged(health.Change{Endpoint: ep, To: health.Serving})
		o.Ejected(observe.Ejection{Endpoint: ep})
		o.Attempted(observe.Attempt{Endpoint: ep, Conn: observe.ConnCalls})
	}
	o.Called(observe.Call{Method: "/\xfe"})
	o.HedgeSent(observe.Hedge{Method: "/\xfe"})
	requireStates(t, reg, map[string]string{`"\xfe"/a`: "unknown", `"\xfe"/"\xfe"`: "serving", `"\xfe"/"\xff"`: "serving"})
	require.InDelta(t, 1, gathered(t, reg, `"\xfe"`)[`hedges_total "\xfe"`], 0)
	detach()
	o.EndpointsSet([]string{"\xff"})
	requireForgotten(t, reg, `"\xfe"`, `"\xff"`)
}

// gathered returns the values of a client, by the names and labels of the metrics: of a histogram its count and its sum.
func gathered(t *testing.T, reg prometheus.Gatherer, client string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	each(t, reg, func(name string, m *dto.Metric) {
		if label(m, "client") != client {
			return
		}
		key := name[len("quorate_client_"):]
		for _, l := range m.GetLabel() {
			if l.GetName() != "client" {
				key += " " + l.GetValue()
			}
		}
		if h := m.GetHistogram(); h != nil {
			all[key+" count"], all[key+" sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
			return
		}
		all[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	})
	return all
}

// BenchmarkMeasure is what a measured call costs beside the call.
func BenchmarkMeasure(b *testing.B) {
	o, err := quorateprom.New(prometheus.NewRegistry(), quorateprom.Options{Client: "orders"})
	require.NoError(b, err)
	defer o.Close()
	o.EndpointsSet([]string{"a"})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			o.Picked(pick("a", observe.ConnCalls))
			o.Attempted(observe.Attempt{Endpoint: "a", Method: rangeMethod, Conn: observe.ConnCalls, Took: time.Millisecond})
			o.Called(observe.Call{Method: rangeMethod, Took: time.Millisecond})
		}
	})
}
