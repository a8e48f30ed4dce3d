package prometheus_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
	quorateprom "github.com/quorate/quorate/observe/prometheus"
	"github.com/quorate/quorate/pool"
)

func TestCallDuration(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	o := newObserver(t, reg, "orders")
	for range 3 {
		o.Called(observe.Call{Method: rangeMethod, Took: time.Millisecond})
	}
	o.Called(observe.Call{Method: rangeMethod, Took: 3 * time.Second, Err: status.Error(codes.DeadlineExceeded, "")})
	o.Called(observe.Call{Method: "/etcdserverpb.KV/Put", Err: errors.New("no status")})
	o.Called(observe.Call{Method: "/etcdserverpb.KV/Put", Err: status.Error(77, "")})
	require.Equal(t, map[string]float64{
		"call_duration_seconds code=OK method=etcdserverpb.KV/Range count": 3, "call_duration_seconds code=OK method=etcdserverpb.KV/Range sum": 0.003,
		"call_duration_seconds code=DeadlineExceeded method=etcdserverpb.KV/Range count": 1, "call_duration_seconds code=DeadlineExceeded method=etcdserverpb.KV/Range sum": 3,
		"call_duration_seconds code=Unknown method=etcdserverpb.KV/Put count": 1, "call_duration_seconds code=Unknown method=etcdserverpb.KV/Put sum": 0,
		"call_duration_seconds code=other method=etcdserverpb.KV/Put count": 1, "call_duration_seconds code=other method=etcdserverpb.KV/Put sum": 0,
	}, of(gathered(t, reg, "orders"), "call_duration_seconds"))
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
		require.Len(t, of(gathered(t, reg, "orders"), name), 101, name)
	}
	all := of(gathered(t, reg, "orders"), "call_duration_seconds")
	require.Len(t, all, 2*101)
	require.InDelta(t, 10_000-200, all["call_duration_seconds code=OK method=other count"], 0)
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
	durations := func() map[string]float64 { return of(gathered(t, reg, "orders"), "attempt_duration_seconds") }
	all := durations()
	require.Len(t, all, 2*3)
	require.InDelta(t, 1, all["attempt_duration_seconds code=OK endpoint=a count"], 0, "a stream is no call")
	require.Contains(t, all, "attempt_duration_seconds code=Unavailable endpoint=b count")
	require.Contains(t, all, "attempt_duration_seconds code=OK endpoint=other count")

	o.EndpointsSet([]string{"a"})
	attempt("b", observe.ConnCalls, nil) // late
	for key := range durations() {
		require.NotContains(t, key, "endpoint=b")
	}
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
		"ready": 1, "calls_in_flight": 4, "attempts_in_flight endpoint=a": 3, "streams_open endpoint=a": 2, "endpoint_latency_seconds endpoint=a": 0.5,
		"watches state=paused": 1, "watch_streams": 1, "watch_lag": 40, "watch_blocked_seconds": 61, "watch_buffered_bytes": 70, "watch_buffer_limit_bytes": 100,
		"leases": 2, "leases_unanswered": 1, "lease_left_seconds": 7.5, "lease_left_ratio": 0.5, "probes_total": 5,
		"watches_resumed_total": 0, "leases_lost_total": 0, // of the observer
		"budget_left budget=retry": 3.5, "budget_limit budget=retry": 10, "budget_left budget=probe": 9, "budget_limit budget=probe": 10,
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
		"ready": 0, "calls_in_flight": 5, "attempts_in_flight endpoint=a": 4, "watches state=paused": 3, "watch_streams": 2, "watch_lag": 40,
		"watch_blocked_seconds": 61, "leases": 3, "lease_left_seconds": 0, "lease_left_ratio": 0.5, "budget_left budget=retry": 4.5,
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
	require.InDelta(t, 1, gathered(t, reg, `"\xfe"`)[`hedges_total method="\xfe"`], 0)
	detach()
	o.EndpointsSet([]string{"\xff"})
	requireForgotten(t, reg, `"\xfe"`, `"\xff"`)
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
