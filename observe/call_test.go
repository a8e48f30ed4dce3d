package observe_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/observe"
)

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
