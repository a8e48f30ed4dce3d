package prometheus_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
	quorateprom "github.com/quorate/quorate/observe/prometheus"
	"github.com/quorate/quorate/pool"
)

const rangeMethod = "/etcdserverpb.KV/Range"

func newObserver(t *testing.T, reg prometheus.Registerer, client string) *quorateprom.Observer {
	t.Helper()
	o, err := quorateprom.New(reg, quorateprom.Options{Client: client})
	require.NoError(t, err)
	t.Cleanup(o.Close)
	return o
}

func pick(endpoint string, class observe.ConnClass) observe.Pick {
	return observe.Pick{Endpoint: endpoint, Method: rangeMethod, Conn: class}
}

// each calls f for each metric with its name, which several share.
func each(t *testing.T, reg prometheus.Gatherer, f func(name string, m *dto.Metric)) {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, family := range families {
		require.NotEmpty(t, family.GetHelp(), family.GetName())
		for _, m := range family.GetMetric() {
			f(family.GetName(), m)
		}
	}
}

// label returns the value of a label, "" if there is none.
func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// gathered returns the values of a client's metrics, or of those without the label "client" if client is "", by name and
// other labels. A histogram has a count and a sum.
func gathered(t *testing.T, reg prometheus.Gatherer, client string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	each(t, reg, func(name string, m *dto.Metric) {
		if label(m, "client") != client {
			return
		}
		key := strings.TrimPrefix(name, "quorate_client_")
		for _, l := range m.GetLabel() {
			if l.GetName() != "client" {
				key += " " + l.GetName() + "=" + l.GetValue()
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

// of deletes all values but those whose names begin with one of the prefixes.
func of(all map[string]float64, prefixes ...string) map[string]float64 {
	maps.DeleteFunc(all, func(key string, _ float64) bool {
		return !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	})
	return all
}

// requireStates requires one state of each endpoint, given as "client/endpoint".
func requireStates(t *testing.T, reg prometheus.Gatherer, want map[string]string) {
	t.Helper()
	got, series := map[string]string{}, 0
	each(t, reg, func(name string, m *dto.Metric) {
		if name != "quorate_client_endpoint_state" {
			return
		}
		series++
		if m.GetGauge().GetValue() == 1 {
			got[label(m, "client")+"/"+label(m, "endpoint")] = label(m, "state")
		}
	})
	require.Equal(t, want, got)
	require.Equal(t, len(want)*(int(health.Dead)+1), series, "one series for each state")
}

func TestCountersOfEndpoints(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	o := newObserver(t, reg, "orders")
	o.EndpointsSet([]string{"a", "b"})
	for range 3 {
		o.Picked(pick("a", observe.ConnCalls))
	}
	o.Picked(pick("a", observe.ConnStreams))
	o.Picked(pick("a", observe.ConnBulk))
	o.Picked(pick("a", "")) // without a class it is a call
	o.Picked(pick("elsewhere", observe.ConnCalls))
	o.Picked(pick("somewhere", observe.ConnCalls))
	o.StateChanged(health.Change{Endpoint: "b", To: health.Dead})
	o.StateChanged(health.Change{Endpoint: "elsewhere", To: health.Dead})
	o.Ejected(observe.Ejection{Endpoint: "b", State: health.Dead, Evidence: health.Evidence{Kind: health.Unresponsive}})
	o.Readmitted(observe.Readmission{Endpoint: "b", After: time.Second})
	o.FailedOver(observe.Failover{Method: rangeMethod, From: "b", To: "a"})
	require.Equal(t, map[string]float64{
		"picks_total connection=calls endpoint=a": 4, "picks_total connection=calls endpoint=other": 2,
		"picks_total connection=streams endpoint=a": 1, "picks_total connection=streams endpoint=other": 0,
		"picks_total connection=bulk endpoint=a": 1, "picks_total connection=bulk endpoint=other": 0,
		"ejections_total endpoint=b reason=unresponsive": 1, "readmissions_total endpoint=b": 1,
		"endpoint_state_changes_total endpoint=b state=dead": 1, "failovers_total endpoint=b": 1,
	}, of(gathered(t, reg, "orders"), "picks", "ejections", "readmissions", "endpoint_state_changes", "failovers"))
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
	requireStates(t, reg, map[string]string{"orders/a": "unknown", "orders/b": "dead"})

	// All metrics of a removed endpoint are removed.
	o.EndpointsSet([]string{"a"})
	o.Picked(pick("b", observe.ConnCalls))
	o.Ejected(observe.Ejection{Endpoint: "b"})
	requireForgotten(t, reg, "b", "a")
	requireStates(t, reg, map[string]string{"orders/a": "unknown"})
}

// requireForgotten requires that no metric has the label of an endpoint, while those of
// another one are there.
func requireForgotten(t *testing.T, reg prometheus.Gatherer, endpoint, kept string) {
	t.Helper()
	seen := map[string]bool{}
	each(t, reg, func(_ string, m *dto.Metric) { seen[label(m, "endpoint")] = true })
	require.NotContains(t, seen, endpoint)
	require.Contains(t, seen, kept)
}

func TestCountersOfCallsAndStreams(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	o := newObserver(t, reg, "")
	o.Retried(observe.Retry{Method: rangeMethod, Class: "NoLeader", Err: errors.New("no leader")})
	o.Retried(observe.Retry{Method: rangeMethod, Class: "NoLeader", Err: errors.New("another text")})
	o.Retried(observe.Retry{Method: "/etcdserverpb.KV/Put", Class: "NotSent"})
	o.HedgeSent(observe.Hedge{Method: rangeMethod})
	o.HedgeSent(observe.Hedge{Method: rangeMethod})
	o.HedgeWon(observe.Hedge{Method: rangeMethod})
	o.OutcomeUnknown(observe.UnknownOutcome{Method: "/etcdserverpb.KV/Put"})
	o.WatchResumed(observe.WatchResumption{Endpoint: "a", Watches: 40, Gap: 300 * time.Millisecond})
	o.LeaseRenewed(observe.LeaseRenewal{ID: 1, Margin: 40 * time.Second, TTL: time.Minute})
	o.LeaseRenewed(observe.LeaseRenewal{ID: 1, Margin: -time.Second, TTL: time.Minute})
	o.LeaseLost(observe.LeaseLoss{ID: 1})
	o.Resolved(observe.Resolution{Target: "dns:///orders", Endpoints: 3})
	o.Resolved(observe.Resolution{Target: "dns:///orders", Endpoints: 4})
	o.Resolved(observe.Resolution{Target: "dns:///orders", Endpoints: 4, Err: errors.New("no answer")})
	all := gathered(t, reg, "")
	require.Positive(t, all["resolver_last_update_timestamp_seconds"])
	delete(all, "resolver_last_update_timestamp_seconds")
	require.Equal(t, map[string]float64{
		"hedges_total method=etcdserverpb.KV/Range": 2, "hedges_won_total method=etcdserverpb.KV/Range": 1, "unknown_outcomes_total method=etcdserverpb.KV/Put": 1,
		"retries_total class=NoLeader method=etcdserverpb.KV/Range": 2, "retries_total class=NotSent method=etcdserverpb.KV/Put": 1,
		"leases_lost_total": 1, "watches_resumed_total": 40, "watch_gap_seconds count": 1, "watch_gap_seconds sum": 0.3,
		"lease_margin_seconds count": 2, "lease_margin_seconds sum": 40,
		"resolver_endpoints": 4, "resolver_errors_total": 1, "resolver_updates_total": 2,
	}, all)
	each(t, reg, func(name string, m *dto.Metric) {
		if name == "quorate_client_lease_margin_seconds" {
			require.EqualValues(t, 1, m.GetHistogram().GetBucket()[0].GetCumulativeCount(), "the renewal that came too late")
		}
	})
}

func TestClientsOfOneRegistry(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	first, second := newObserver(t, reg, "first"), newObserver(t, prometheus.WrapRegistererWithPrefix("", reg), "second")
	first.EndpointsSet([]string{"a"})
	second.EndpointsSet([]string{"a"})
	first.StateChanged(health.Change{Endpoint: "a", To: health.Serving})
	second.StateChanged(health.Change{Endpoint: "a", To: health.Degraded})
	requireStates(t, reg, map[string]string{"first/a": "serving", "second/a": "degraded"})
	second.Close()
	requireStates(t, reg, map[string]string{"first/a": "serving"})
}

func TestClientsOfOneName(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	first, second := newObserver(t, reg, "same"), newObserver(t, reg, "same")
	for _, o := range []*quorateprom.Observer{first, second} {
		o.EndpointsSet([]string{"a"})
		o.StateChanged(health.Change{Endpoint: "a", To: health.Serving})
		o.Picked(pick("a", observe.ConnCalls))
	}
	const picks = "picks_total connection=calls endpoint=a"
	require.InDelta(t, 2, gathered(t, reg, "same")[picks], 0)
	first.EndpointsSet(nil)
	require.InDelta(t, 2, gathered(t, reg, "same")[picks], 0)
	requireStates(t, reg, map[string]string{"same/a": "serving"})
	second.EndpointsSet(nil)
	require.Empty(t, of(gathered(t, reg, "same"), "picks_total"))
	requireStates(t, reg, map[string]string{})
}

func TestNewRefuses(t *testing.T) {
	_, err := quorateprom.New(nil, quorateprom.Options{})
	require.ErrorContains(t, err, "no registerer")

	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "quorate_client_picks_total", Help: "Mine."}))
	_, err = quorateprom.New(reg, quorateprom.Options{})
	require.ErrorContains(t, err, "registering the metrics")
}

// TestEndpointsComeAndGo is for the race detector, and requires that late events leave no metrics.
func TestEndpointsComeAndGo(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	o := newObserver(t, reg, "orders")
	o.EndpointsSet([]string{"a"})
	var busy sync.WaitGroup
	for range 3 {
		busy.Go(func() {
			for range 500 {
				o.Picked(pick("b", observe.ConnCalls))
				o.FailedOver(observe.Failover{From: "b"})
				o.StateChanged(health.Change{Endpoint: "b", To: health.Dead})
			}
		})
	}
	for range 50 {
		o.EndpointsSet([]string{"a", "b"})
		_, err := reg.Gather()
		require.NoError(t, err)
		o.EndpointsSet([]string{"a"})
	}
	busy.Wait()
	requireForgotten(t, reg, "b", "a")
}

// All series of endpoints are dropped that are removed, whatever their labels. The work does not depend on how many stay.
func TestRemovedEndpoints(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	o := newObserver(t, reg, "orders")
	var all []string
	for i := range 1000 {
		all = append(all, fmt.Sprint(i))
	}
	o.EndpointsSet(all)
	for _, class := range []observe.ConnClass{observe.ConnCalls, observe.ConnStreams, observe.ConnBulk} {
		o.Picked(pick("0", class))
	}
	for kind := health.Connected; kind <= health.Removed; kind++ {
		o.Ejected(observe.Ejection{Endpoint: "0", Evidence: health.Evidence{Kind: kind}})
	}
	for state := health.Unknown; state <= health.Dead; state++ {
		o.StateChanged(health.Change{Endpoint: "0", To: state})
	}
	for code := codes.OK; code <= codes.Unauthenticated+1; code++ {
		o.Attempted(observe.Attempt{Endpoint: "0", Conn: observe.ConnCalls, Err: status.Error(code, "")})
	}
	o.Readmitted(observe.Readmission{Endpoint: "0"})
	o.FailedOver(observe.Failover{From: "0"})
	allocations := testing.AllocsPerRun(1, func() {
		o.EndpointsSet(all[500:])
		o.EndpointsSet(all)
	})
	require.Less(t, allocations, 5000., "ten for each that is removed")
	require.Len(t, gathered(t, reg, "orders"), 2+len(all)*(int(health.Dead)+1), "states, watches and leases")
}

// The resolver of a closed client is no longer reported.
func TestResolverOfAClosedClient(t *testing.T) {
	count := func(reg prometheus.Gatherer) int {
		n, err := testutil.GatherAndCount(reg, "quorate_client_resolver_endpoints", "quorate_client_resolver_last_update_timestamp_seconds")
		require.NoError(t, err)
		return n
	}
	list := func(o *quorateprom.Observer, endpoints ...string) {
		o.EndpointsSet(endpoints)
		o.Resolved(observe.Resolution{Target: "dns:///orders", Endpoints: len(endpoints)})
	}
	for name, end := range map[string]func(*quorateprom.Observer){
		"the observer is closed": (*quorateprom.Observer).Close,
		"the client is closed":   func(o *quorateprom.Observer) { o.EndpointsSet(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			reg := prometheus.NewPedanticRegistry()
			first, second := newObserver(t, reg, "orders"), newObserver(t, reg, "orders")
			list(first, "a", "b")
			list(second, "a")
			require.Equal(t, 2, count(reg))
			end(first)
			require.Equal(t, 2, count(reg), "another client of the name lives")
			end(second)
			require.Zero(t, count(reg))
		})
	}
	reg := prometheus.NewPedanticRegistry()
	o := newObserver(t, reg, "orders")
	list(o)
	require.Equal(t, 2, count(reg), "an empty list of a live client is one")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		Budgets: []introspect.Budget{{Name: "retry", Left: 1, Max: 10}, {Name: "probe", Used: 2}},
	}})
	both := gathered(t, reg, "orders")
	for name, n := range map[string]float64{
		"ready": 0, "calls_in_flight": 5, "attempts_in_flight endpoint=a": 4, "watches state=paused": 3, "watch_streams": 2, "watch_lag": 40,
		"watch_blocked_seconds": 61, "leases": 3, "lease_left_seconds": 0, "lease_left_ratio": 0.5, "budget_left budget=retry": 4.5,
	} {
		require.InDelta(t, n, both[name], 0, name)
	}
	second()
	want["probes_total"] = 7 // a counter does not fall
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

// TestEndpointsBesideOtherClients allocates as much for an update with a hundred other clients as with one.
func TestEndpointsBesideOtherClients(t *testing.T) {
	reg := prometheus.NewRegistry()
	update := func() float64 {
		o := newObserver(t, reg, "")
		return testing.AllocsPerRun(10, func() {
			o.EndpointsSet([]string{"a:1", "b:1"})
			o.EndpointsSet([]string{"a:1"})
		})
	}
	alone := update()
	for range 100 {
		newObserver(t, reg, "").EndpointsSet([]string{"c:1"})
	}
	require.InDelta(t, alone, update(), 50)
}
