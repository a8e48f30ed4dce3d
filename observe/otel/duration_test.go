package otel_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
	quorateotel "github.com/quorate/quorate/observe/otel"
)

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
