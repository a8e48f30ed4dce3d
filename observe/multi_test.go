package observe_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
)

// recorder records its calls.
type recorder struct {
	observe.None
	events []any
}

func (r *recorder) note(e any) { r.events = append(r.events, e) }

func (r *recorder) EndpointsSet(e []string)                 { r.note(e) }
func (r *recorder) Resolved(e observe.Resolution)           { r.note(e) }
func (r *recorder) Picked(e observe.Pick)                   { r.note(e) }
func (r *recorder) StateChanged(e health.Change)            { r.note(e) }
func (r *recorder) Ejected(e observe.Ejection)              { r.note(e) }
func (r *recorder) Readmitted(e observe.Readmission)        { r.note(e) }
func (r *recorder) Retried(e observe.Retry)                 { r.note(e) }
func (r *recorder) FailedOver(e observe.Failover)           { r.note(e) }
func (r *recorder) HedgeSent(e observe.Hedge)               { r.note(e) }
func (r *recorder) HedgeWon(e observe.Hedge)                { r.note(e) }
func (r *recorder) OutcomeUnknown(e observe.UnknownOutcome) { r.note(e) }
func (r *recorder) WatchResumed(e observe.WatchResumption)  { r.note(e) }
func (r *recorder) LeaseRenewed(e observe.LeaseRenewal)     { r.note(e) }
func (r *recorder) LeaseLost(e observe.LeaseLoss)           { r.note(e) }

// TestMultiCallsAll calls every method of the interface, those to come included.
func TestMultiCallsAll(t *testing.T) {
	events := reflect.TypeFor[observe.Observer]()
	called := 0
	for i := range events.NumMethod() {
		method := events.Method(i)
		if !method.IsExported() {
			continue
		}
		called++
		t.Run(method.Name, func(t *testing.T) {
			first, second := new(recorder), new(recorder)
			multi := observe.Multi(first, nil, second)
			event := reflect.New(method.Type.In(0)).Elem()
			reflect.ValueOf(multi).MethodByName(method.Name).Call([]reflect.Value{event})
			require.Equal(t, []any{event.Interface()}, first.events)
			require.Equal(t, first.events, second.events)
		})
	}
	require.Equal(t, 14, called)
}

func TestMultiKeepsTheOrder(t *testing.T) {
	var order []string
	named := func(name string) observe.Observer {
		return &called{f: func() { order = append(order, name) }}
	}
	observe.Multi(observe.Multi(named("a"), named("b")), observe.None{}, named("c")).HedgeSent(observe.Hedge{})
	require.Equal(t, []string{"a", "b", "c"}, order)
}

type called struct {
	observe.None
	f func()
}

func (c *called) HedgeSent(observe.Hedge) { c.f() }

func TestMultiOfFew(t *testing.T) {
	require.Nil(t, observe.Multi())
	require.Nil(t, observe.Multi(nil, observe.None{}))
	r := new(recorder)
	require.Same(t, r, observe.Multi(nil, r, observe.None{}))
}

func TestPickAllocatesNothing(t *testing.T) {
	var count counter
	o := observe.Multi(&count, &count)
	pick := observe.Pick{Endpoint: "10.0.0.1:2379", Method: "/etcdserverpb.KV/Range", Conn: observe.ConnCalls}
	assert.Zero(t, testing.AllocsPerRun(100, func() { o.Picked(pick) }))
	assert.Positive(t, count.n)
}

type counter struct {
	observe.None
	n int
}

func (c *counter) Picked(observe.Pick) { c.n++ }

// follower records calls, and traces those whose method it knows.
type follower struct {
	recorder
	method string
}

func (f *follower) Called(e observe.Call)       { f.note(e) }
func (f *follower) Attempted(e observe.Attempt) { f.note(e) }

type nameKey struct{}

func (f *follower) StartCall(ctx context.Context, method string) (context.Context, observe.CallTrace) {
	if method != f.method {
		return ctx, nil
	}
	names, _ := ctx.Value(nameKey{}).(string)
	return context.WithValue(ctx, nameKey{}, names+f.method), followedCall{f}
}

type followedCall struct{ f *follower }

func (c followedCall) StartAttempt(ctx context.Context, hedge bool) (context.Context, observe.AttemptTrace) {
	c.f.note(hedge)
	return ctx, followedAttempt(c)
}

func (c followedCall) End(e observe.Call) { c.f.note(e) }

type followedAttempt struct{ f *follower }

func (a followedAttempt) End(endpoint string, _ error) { a.f.note(endpoint) }

func TestTrace(t *testing.T) {
	require.Nil(t, observe.Trace(observe.Multi(new(recorder), new(recorder))))
	first, second, third := &follower{method: "/a"}, &follower{method: "/b"}, &follower{method: "/a"}
	tracer := observe.Trace(observe.Multi(first, new(recorder), second, third))

	_, none := tracer.StartCall(t.Context(), "/c")
	require.Nil(t, none)
	ctx, call := tracer.StartCall(t.Context(), "/a")
	require.Equal(t, "/a/a", ctx.Value(nameKey{}))
	_, attempt := call.StartAttempt(ctx, true)
	attempt.End("x", nil)
	call.End(observe.Call{Method: "/a"})
	require.Equal(t, []any{true, "x", observe.Call{Method: "/a"}}, first.events)
	require.Equal(t, first.events, third.events)
	require.Empty(t, second.events)

	tracer = observe.Trace(observe.Multi(unsampled{}, second))
	ctx, _ = tracer.StartCall(t.Context(), "/c")
	require.Equal(t, "unsampled", ctx.Value(nameKey{}), "attempts get the context of a call that is not traced")
}

// unsampled decides not to trace calls.
type unsampled struct{ observe.None }

func (unsampled) StartCall(ctx context.Context, _ string) (context.Context, observe.CallTrace) {
	return context.WithValue(ctx, nameKey{}, "unsampled"), nil
}

func TestCalls(t *testing.T) {
	require.Nil(t, observe.Calls(nil))
	require.Nil(t, observe.Calls(observe.Multi(new(recorder), new(recorder))))
	first, second := new(follower), new(follower)
	require.Same(t, first, observe.Calls(observe.Multi(new(recorder), first)))
	all := observe.Calls(observe.Multi(first, new(recorder), second))
	call, attempt := observe.Call{Method: "/a/b", Err: errors.New("no")}, observe.Attempt{Endpoint: "x"}
	all.Called(call)
	all.Attempted(attempt)
	require.Equal(t, []any{call, attempt}, first.events)
	require.Equal(t, first.events, second.events)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func change(endpoint string, to health.State) health.Change {
	return health.Change{Endpoint: endpoint, To: to}
}

func requireStates(t *testing.T, want map[string]health.State, s *observe.States) {
	t.Helper()
	got := map[string]health.State{}
	for _, ep := range s.Endpoints() {
		state, ok := s.Of(ep)
		require.True(t, ok)
		got[ep] = state
	}
	require.Equal(t, want, got)
}

func TestStatesFollowTheEndpoints(t *testing.T) {
	var s observe.States
	require.True(t, s.Has("z"), "what the endpoints are is not known yet")
	require.Empty(t, s.Set([]string{"a", "b"}))
	require.True(t, s.Has("a"))
	require.False(t, s.Has("z"))
	requireStates(t, map[string]health.State{"a": health.Unknown, "b": health.Unknown}, &s)

	require.True(t, s.Change(change("a", health.Serving)))
	require.Equal(t, []string{"b"}, s.Set([]string{"c", "a"}))
	requireStates(t, map[string]health.State{"a": health.Serving, "c": health.Unknown}, &s)

	require.False(t, s.Change(change("b", health.Draining)), "of an endpoint that was removed")
	require.False(t, s.Change(change("b", health.Dead)))
	requireStates(t, map[string]health.State{"a": health.Serving, "c": health.Unknown}, &s)

	require.Equal(t, []string{"a", "c"}, s.Set(nil))
	requireStates(t, map[string]health.State{}, &s)
}

// An endpoint that is removed and comes back at once learns what becomes of its
// predecessor.
func TestStatesOfAnEndpointThatCameBack(t *testing.T) {
	var s observe.States
	s.Set([]string{"a"})
	s.Set(nil)
	s.Set([]string{"a"})
	require.True(t, s.Change(change("a", health.Draining)))
	requireStates(t, map[string]health.State{"a": health.Unknown}, &s)
}

func TestStatesWithoutSet(t *testing.T) {
	var s observe.States
	require.True(t, s.Change(change("a", health.Serving)))
	require.True(t, s.Change(change("b", health.Dead)))
	requireStates(t, map[string]health.State{"a": health.Serving, "b": health.Dead}, &s)
	require.False(t, s.Change(change("b", health.Draining)))
	requireStates(t, map[string]health.State{"a": health.Serving}, &s)
	_, ok := s.Of("b")
	require.False(t, ok)
}
