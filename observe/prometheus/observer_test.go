package prometheus_test

import (
	"errors"
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

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
	quorateprom "github.com/quorate/quorate/observe/prometheus"
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

// gathered returns the values of a client's metrics, "" for those of none, by their names and labels but the client's: of a
// histogram its count and its sum.
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

// of returns those whose names begin with one of the prefixes.
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
	o.Picked(pick("elsewhere", observe.ConnCalls))
	o.Picked(pick("somewhere", observe.ConnCalls))
	o.StateChanged(health.Change{Endpoint: "b", To: health.Dead})
	o.StateChanged(health.Change{Endpoint: "elsewhere", To: health.Dead})
	o.Ejected(observe.Ejection{Endpoint: "b", State: health.Dead, Evidence: health.Evidence{Kind: health.Unresponsive}})
	o.Readmitted(observe.Readmission{Endpoint: "b", After: time.Second})
	o.FailedOver(observe.Failover{Method: rangeMethod, From: "b", To: "a"})
	require.Equal(t, map[string]float64{
		"picks_total connection=calls endpoint=a": 3, "picks_total connection=calls endpoint=other": 2,
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
