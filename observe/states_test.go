package observe_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
)

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
