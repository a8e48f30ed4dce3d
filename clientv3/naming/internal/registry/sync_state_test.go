package registry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

func TestEvaluate(t *testing.T) {
	now := time.Now()
	in := func(s health.State) health.Status { return health.Status{State: s, Since: now.Add(-time.Hour)} }
	fresh := health.Status{State: health.Suspected, Since: now.Add(-suspicionLimit + 1)}
	tests := map[string]struct {
		statuses []health.Status
		want     view
	}{
		"no endpoint is known":            {nil, unclear},
		"nothing is known":                {[]health.Status{in(health.Unknown)}, unclear},
		"one serves":                      {[]health.Status{in(health.Dead), in(health.Serving)}, serving},
		"one is slow":                     {[]health.Status{in(health.Slow), in(health.Degraded)}, serving},
		"a suspect":                       {[]health.Status{in(health.Dead), fresh}, serving},
		"an old suspect":                  {[]health.Status{in(health.Dead), in(health.Suspected)}, out},
		"all are dead":                    {[]health.Status{in(health.Dead), in(health.Dead)}, out},
		"degraded":                        {[]health.Status{in(health.Degraded)}, out},
		"stuck":                           {[]health.Status{in(health.Lagging)}, out},
		"not serving":                     {[]health.Status{in(health.NotServing)}, out},
		"one may serve":                   {[]health.Status{in(health.Dead), in(health.Unknown)}, unclear},
		"a restricted one does not serve": {[]health.Status{in(health.Dead), in(health.Restricted)}, out},
		"a restricted one is no evidence": {[]health.Status{in(health.Restricted)}, unclear},
		"removed ones are ignored":        {[]health.Status{in(health.Draining), in(health.Dead)}, out},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, worst := evaluate(tt.statuses, now)
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.want == out, worst.State != health.Unknown, "an example is named: %v", worst)
		})
	}
}

// scene is a syncState with endpoint states that a test sets.
type scene struct {
	syncState
	state    health.Status
	reported []string
}

// withScene runs a test in virtual time with a scene of its own.
func withScene(t *testing.T, test func(t *testing.T, s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newScene()) })
}

func newScene() *scene {
	s := &scene{state: health.Status{Endpoint: "a:1", State: health.Serving}}
	s.statuses = func() []health.Status { return []health.Status{s.state} }
	s.observer, s.tolerance = s, DefaultTolerance
	return s
}

func (s *scene) Changed([]Change) {}
func (s *scene) Lost(err error)   { s.reported = append(s.reported, err.Error()) }
func (s *scene) Regained()        { s.reported = append(s.reported, "regained") }

// pass lets time pass, with checks.
func (s *scene) pass(d time.Duration) {
	for ; d > 0; d -= checkInterval {
		time.Sleep(checkInterval)
		s.check()
	}
}

// take returns what was reported since the last take.
func (s *scene) take() []string {
	reported := s.reported
	s.reported = nil
	return reported
}

func TestSyncStateIsSilentWhileSynced(t *testing.T) {
	withScene(t, func(t *testing.T, s *scene) {
		s.markStale()
		s.markSynced()
		s.pass(time.Hour)
		require.Empty(t, s.take())
	})
}

func TestOutageIsReportedOnce(t *testing.T) {
	withScene(t, func(t *testing.T, s *scene) {
		s.markSynced()
		s.state.State = health.Dead
		s.state.Evidence = health.Evidence{Kind: health.ConnectFailed, Err: errors.New("connection refused")}
		s.pass(DefaultTolerance)
		require.Empty(t, s.take(), "it is shorter than the tolerance")
		s.pass(time.Minute)
		require.Equal(t, []string{
			"etcd cannot be reached: no endpoint serves; a:1 is dead (connect failed: connection refused)",
		}, s.take())
		s.state.Evidence.Err = errors.New("another endpoint")
		s.pass(time.Minute)
		require.Empty(t, s.take(), "an unchanged reason is not reported")
		s.state.State = health.Degraded
		s.pass(time.Second)
		require.Len(t, s.take(), 1, "that is")
		s.state.State = health.Unknown
		s.pass(time.Minute)
		require.Empty(t, s.take(), "a connecting endpoint is no evidence")
		s.state.State = health.Serving
		s.pass(checkInterval)
		require.Equal(t, []string{"regained"}, s.take())
	})
}

func TestElectionIsTolerated(t *testing.T) {
	withScene(t, func(t *testing.T, s *scene) {
		s.markSynced()
		for range 100 {
			s.state.State = health.Degraded
			s.pass(DefaultTolerance)
			s.state.State = health.Serving
			s.pass(checkInterval)
		}
		require.Empty(t, s.take())
	})
}

// Serving endpoints do not make the state synced before there is a watch.
func TestStaleUntilTheWatchIsEstablished(t *testing.T) {
	withScene(t, func(t *testing.T, s *scene) {
		s.markStale()
		s.pass(time.Minute)
		require.Equal(t, []string{errUnanswered.Error()}, s.take())
		s.refused(errors.New("permission denied"))
		s.refused(errors.New("permission denied"))
		require.Equal(t, []string{"permission denied"}, s.take())
		s.pass(time.Minute)
		require.Empty(t, s.take(), "the refusal stays the reason")
		s.markSynced()
		require.Equal(t, []string{"regained"}, s.take())
		s.markSynced()
		require.Empty(t, s.take())
		s.refused(errors.New("the watch broke"))
		s.pass(time.Minute)
		require.Equal(t, []string{"the watch broke"}, s.take(), "the watch before does not count")
	})
}

// Attempts that fail at once leave no time for a check.
func TestFailedAttemptsAreReportedAfterTheTolerance(t *testing.T) {
	withScene(t, func(t *testing.T, s *scene) {
		s.markSynced()
		s.unanswered(errors.New("no leader"))
		time.Sleep(DefaultTolerance - 1)
		s.unanswered(errors.New("no leader"))
		require.Empty(t, s.take(), "it is shorter than the tolerance")
		time.Sleep(time.Nanosecond)
		s.unanswered(errors.New("no leader"))
		s.unanswered(errors.New("timed out"))
		require.Equal(t, []string{"no leader"}, s.take())
		s.markSynced()
		require.Equal(t, []string{"regained"}, s.take())
		s.markStale()
		s.pass(time.Minute)
		require.Equal(t, []string{errUnanswered.Error()}, s.take(), "the reason before does not count")
	})
}

func TestEndpointsAreCheckedWhileStale(t *testing.T) {
	withScene(t, func(t *testing.T, s *scene) {
		s.state.State = health.Unknown
		s.markStale()
		check := func(d time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			s.checkUntilDone(ctx)
		}
		check(suspicionLimit - checkInterval)
		require.Empty(t, s.take(), "it may still connect")
		check(2 * checkInterval)
		require.Equal(t, []string{errUnanswered.Error()}, s.take())
	})
}
