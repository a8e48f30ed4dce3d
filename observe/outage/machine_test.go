package outage

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

var errReset = errors.New("connection reset")

// rig is a machine with its own clock.
type rig struct {
	t   *testing.T
	m   *machine
	now time.Time
}

// newRig returns the machine of a client whose endpoints all serve.
func newRig(t *testing.T, endpoints ...string) *rig {
	r := &rig{t: t, m: newMachine(false), now: time.Unix(1e9, 0)}
	r.m.set(r.now, endpoints)
	for _, ep := range endpoints {
		r.is(ep, health.Serving)
	}
	require.Empty(t, r.pass(time.Hour))
	return r
}

func (r *rig) is(ep string, to health.State) {
	r.m.change(r.now, health.Change{Endpoint: ep, To: to, Evidence: health.Evidence{Kind: health.Unresponsive, Err: errReset}})
}

// pass lets time pass, calls the machine whenever it is due, and returns its lines.
func (r *rig) pass(d time.Duration) []line {
	r.t.Helper()
	var lines []line
	for end := r.now.Add(d); ; {
		when, ok := r.m.wake(r.now)
		if !ok || when.After(end) {
			r.now = end
			return lines
		}
		require.False(r.t, when.Before(r.now) && len(r.m.lines) == 0, "it is due in the past")
		r.now = when
		lines = append(lines, r.m.advance(r.now, nil)...)
	}
}

// says lets time pass and compares the lines of that time.
func (r *rig) says(d time.Duration, want ...kind) []line {
	r.t.Helper()
	lines := r.pass(d)
	var got []kind
	for _, l := range lines {
		got = append(got, l.kind)
	}
	require.Equal(r.t, want, got)
	return lines
}

func TestOutageOfAnEndpoint(t *testing.T) {
	for _, state := range []health.State{health.Dead, health.Lagging, health.Degraded, health.NotServing} {
		t.Run(state.String(), func(t *testing.T) {
			r := newRig(t, "a", "b", "c")
			r.m.note(r.now, "b", tally{retries: 7})
			r.says(2 * minDuration)
			r.m.note(r.now, "b", tally{retries: 1})
			r.says(minDuration / 2)
			began := r.now
			r.is("b", health.Suspected)
			r.is("b", state)
			r.m.note(r.now, "b", tally{retries: 1, lastErr: errReset})
			r.m.note(r.now, "a", tally{retries: 10})
			start := r.says(time.Minute, endpointOut)[0]
			require.Equal(t, "b", start.endpoint)
			require.Equal(t, state, start.episode.state)
			require.Equal(t, health.Unresponsive, start.episode.evidence.Kind)
			require.Equal(t, tally{retries: 2, lastErr: errReset}, start.episode.tried, "only those just before the outage count")

			last := errors.New("another endpoint")
			r.m.note(r.now, "b", tally{failovers: 2, unknown: 1, hedges: 3, lastErr: last})
			r.is("b", health.Suspected)
			r.is("b", health.Unknown)
			r.says(time.Minute)
			r.is("b", health.Serving)
			end := r.says(time.Minute, endpointBack)[0]
			require.Equal(t, "b", end.endpoint)
			require.Equal(t, began, end.episode.begin)
			require.Equal(t, 2*time.Minute, end.episode.back.Sub(end.episode.begin))
			require.Zero(t, end.episode.flaps)
			require.Equal(t, tally{retries: 2, failovers: 2, unknown: 1, hedges: 3, lastErr: last}, end.episode.tried)

			r.is("b", state)
			require.Equal(t, tally{lastErr: errReset}, r.says(time.Minute, endpointOut)[0].episode.tried, "those of the previous outage do not count")
		})
	}
}

func TestShortOutagesAreNotLogged(t *testing.T) {
	r := newRig(t, "a", "b", "c")
	for range 10 {
		r.is("b", health.Dead)
		r.says(minDuration - time.Millisecond)
		r.is("b", health.Serving)
		r.says(time.Minute)
	}
	for _, state := range []health.State{health.Suspected, health.Slow, health.Restricted, health.Unknown} {
		r.is("b", state)
		r.says(time.Hour)
	}
}

// Repeated short outages count as one outage.
func TestFlappingIsOneOutage(t *testing.T) {
	r := newRig(t, "a", "b", "c")
	var lines []line
	for range 100 {
		r.is("b", health.Dead)
		lines = append(lines, r.pass(minDuration/2)...)
		r.is("b", health.Serving)
		lines = append(lines, r.pass(minDuration/2)...)
	}
	require.Len(t, lines, 1)
	require.Equal(t, endpointOut, lines[0].kind)
	end := r.says(time.Minute, endpointBack)[0]
	require.Equal(t, 99, end.episode.flaps)
	require.Equal(t, 100*minDuration-minDuration/2, end.episode.back.Sub(end.episode.begin))
}

// An endpoint that fails repeatedly, in whatever rhythm, causes a few lines and then at most two
// per minute.
func TestLinesAreFew(t *testing.T) {
	for _, rhythm := range []time.Duration{1100 * time.Millisecond, 3 * time.Second, 10 * time.Second, 40 * time.Second} {
		t.Run(rhythm.String(), func(t *testing.T) {
			r := newRig(t, "a", "b", "c")
			const whole = 2 * time.Hour
			lines := 0
			for range whole / (2 * rhythm) {
				r.is("b", health.Dead)
				lines += len(r.pass(rhythm))
				r.is("b", health.Serving)
				lines += len(r.pass(rhythm))
			}
			require.Positive(t, lines)
			require.LessOrEqual(t, lines, 16)
			r.pass(time.Hour)

			r.is("b", health.Dead)
			r.says(10*time.Second, endpointOut)
			r.is("b", health.Serving)
			r.says(minDuration, endpointBack)
		})
	}
}

func TestOutageOfTheCluster(t *testing.T) {
	r := newRig(t, "a", "b", "c")
	for _, ep := range []string{"a", "b", "c"} {
		r.is(ep, health.Degraded)
		r.says(100 * time.Millisecond)
	}
	r.m.note(r.now, "", tally{retries: 5, unknown: 1})
	start := r.says(time.Minute, clusterOut)[0]
	require.Len(t, start.members, 3)
	require.Equal(t, "a: degraded (unresponsive: connection reset)", start.members[0].String())
	require.Equal(t, 5, start.episode.tried.retries)

	r.is("b", health.Serving)
	r.says(minDuration / 2)
	r.is("a", health.Serving)
	end := r.says(time.Hour, clusterBack)[0]
	require.Equal(t, time.Minute+100*time.Millisecond, end.episode.back.Sub(end.episode.begin))
	require.Len(t, end.members, 1)
	require.Equal(t, "c", end.members[0].endpoint)

	r.is("c", health.Serving)
	require.Equal(t, "c", r.says(time.Hour, endpointBack)[0].endpoint)
}

// An endpoint that was out before the others has its own lines.
func TestClusterOutageAfterThatOfAnEndpoint(t *testing.T) {
	r := newRig(t, "a", "b", "c")
	r.is("a", health.Dead)
	r.says(time.Minute, endpointOut)
	r.is("b", health.Dead)
	r.is("c", health.Dead)
	require.Len(t, r.says(time.Minute, clusterOut)[0].members, 3)
	for _, ep := range []string{"a", "b", "c"} {
		r.is(ep, health.Serving)
	}
	lines := r.pass(time.Minute)
	require.Len(t, lines, 2)
	for _, l := range lines {
		if l.kind == clusterBack {
			require.Empty(t, l.members)
			continue
		}
		require.Equal(t, endpointBack, l.kind)
		require.Equal(t, "a", l.endpoint)
	}
}

// A short outage of all endpoints is not one of the cluster; if some stay out, they have their own
// lines.
func TestShortOutageOfTheCluster(t *testing.T) {
	r := newRig(t, "a", "b", "c")
	for _, ep := range []string{"a", "b", "c"} {
		r.is(ep, health.Dead)
	}
	r.says(minDuration / 2)
	r.is("a", health.Serving)
	lines := r.says(time.Minute, endpointOut, endpointOut)
	require.Equal(t, "b", lines[0].endpoint)
	require.Equal(t, "c", lines[1].endpoint)
}

func TestWhatCountsAsAnOutageOfTheCluster(t *testing.T) {
	for name, tt := range map[string]struct {
		third health.State
		want  []kind
	}{
		"one in an unknown state": {health.Unknown, []kind{endpointOut, endpointOut}},
		"one that is restricted":  {health.Restricted, []kind{clusterOut}},
		"one that is suspected":   {health.Suspected, []kind{endpointOut, endpointOut}},
		"one that is slow":        {health.Slow, []kind{endpointOut, endpointOut}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "a", "b", "c")
			r.is("c", tt.third)
			r.is("a", health.Dead)
			r.is("b", health.Dead)
			r.says(time.Minute, tt.want...)
		})
	}
}

func TestRemovedEndpoints(t *testing.T) {
	r := newRig(t, "a", "b", "c")
	r.is("b", health.Dead)
	r.says(time.Minute, endpointOut)
	r.m.set(r.now, []string{"a", "c"})
	line := r.says(0, endpointRemoved)[0]
	require.Equal(t, "b", line.endpoint)
	require.Equal(t, time.Minute, line.episode.back.Sub(line.episode.begin))
	r.is("b", health.Draining)
	r.is("b", health.Dead)
	r.says(time.Hour)

	r.is("a", health.Dead)
	r.m.set(r.now, []string{"c"})
	r.says(time.Hour)
	r.is("c", health.Dead)
	r.says(time.Hour, clusterOut)
}

// During an outage the endpoints are replaced by others in an unknown state: the outage ends only
// when one serves.
func TestClusterWithOtherEndpoints(t *testing.T) {
	r := newRig(t, "a", "b")
	r.is("a", health.Dead)
	r.is("b", health.Dead)
	r.says(time.Minute, clusterOut)
	r.m.set(r.now, nil)
	r.m.set(r.now, []string{"c", "d"})
	r.says(time.Minute)
	r.is("c", health.Dead)
	r.says(time.Minute)
	r.is("d", health.Serving)
	end := r.says(time.Minute, clusterBack)[0]
	require.Len(t, end.members, 1)
	require.Equal(t, "c", end.members[0].endpoint)
}
