package outage_test

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/outage"
)

var errReset = errors.New("connection reset")

// The lines of the log.
const (
	endpointOut     = "warn: an endpoint is out"
	endpointChanged = "warn: an endpoint is out for another reason"
	endpointBack    = "info: an endpoint serves again"
	endpointRemoved = "info: an endpoint that was out has been removed"
	clusterOut      = "warn: no endpoint can serve"
	clusterChanged  = "warn: no endpoint can serve, for another reason"
	clusterBack     = "info: the cluster serves again"
)

// rig is a Reporter of a client whose endpoints all serve, in virtual time.
type rig struct {
	*outage.Reporter
	t    *testing.T
	logs *observer.ObservedLogs
}

func newRig(t *testing.T, known func() []health.Status, endpoints ...string) *rig {
	core, logs := observer.New(zapcore.DebugLevel)
	lg := zap.New(core)
	r := &rig{outage.New(func() *zap.Logger { return lg }, known), t, logs}
	t.Cleanup(r.Close)
	r.EndpointsSet(endpoints)
	for _, ep := range endpoints {
		r.is(health.Serving, ep)
	}
	return r
}

// inBubble runs a test with three endpoints.
func inBubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newRig(t, nil, "a", "b", "c")) })
}

func (r *rig) is(to health.State, endpoints ...string) {
	for _, ep := range endpoints {
		r.StateChanged(health.Change{Endpoint: ep, To: to, Evidence: health.Evidence{Kind: health.Unresponsive, Err: errReset, Detail: "no answer"}})
	}
}

// pass lets time pass, and returns the lines of that time and their fields.
func (r *rig) pass(d time.Duration) (lines []string, fields []map[string]any) {
	time.Sleep(d)
	synctest.Wait()
	for _, entry := range r.logs.TakeAll() {
		lines = append(lines, fmt.Sprintf("%v: %s", entry.Level, entry.Message))
		fields = append(fields, entry.ContextMap())
	}
	return lines, fields
}

// says lets time pass, compares the lines of that time, and returns their fields.
func (r *rig) says(d time.Duration, want ...string) []map[string]any {
	r.t.Helper()
	lines, fields := r.pass(d)
	require.Equal(r.t, want, lines)
	return fields
}

func TestOutageOfAnEndpoint(t *testing.T) {
	for _, state := range []health.State{health.Dead, health.Lagging, health.Degraded, health.NotServing} {
		grpctest.Bubble(t, state.String(), func(t *testing.T) {
			r := newRig(t, nil, "a", "b", "c")
			retry := observe.Retry{Endpoint: "b", Err: errReset}
			r.Retried(retry)
			r.says(2 * time.Second)
			r.Retried(retry)
			r.says(time.Second / 2)
			began := time.Now()
			r.is(health.Suspected, "b")
			r.is(state, "b")
			r.Retried(retry)
			r.Retried(observe.Retry{Endpoint: "a", Err: errReset})
			want := map[string]any{
				"endpoint": "b", "state": state.String(), "evidence": "unresponsive", "detail": "no answer", "since": began,
				"retries": int64(2), "failovers": int64(0), "hedges": int64(0), "unknown-outcomes": int64(0), "last-error": "connection reset",
			}
			require.Equal(t, want, r.says(time.Minute, endpointOut)[0], "only retries just before the outage count")

			for range 3 {
				r.FailedOver(observe.Failover{From: "b", To: "c", Err: errReset})
			}
			r.HedgeSent(observe.Hedge{First: "b", Second: "a"})
			r.OutcomeUnknown(observe.UnknownOutcome{Endpoint: "b", Err: errors.New("the last one")})
			r.is(health.Suspected, "b")
			r.is(health.Unknown, "b")
			r.says(time.Minute)
			r.is(health.Serving, "b")
			want["failovers"], want["hedges"], want["unknown-outcomes"], want["last-error"] = int64(3), int64(1), int64(1), "the last one"
			want["out-for"], want["flaps"] = 2*time.Minute, int64(0)
			require.Equal(t, want, r.says(time.Minute, endpointBack)[0])

			r.is(state, "b")
			require.Zero(t, r.says(time.Minute, endpointOut)[0]["retries"], "those of the previous outage do not count")
		})
	}
}

func TestShortOutagesAreNotLogged(t *testing.T) {
	inBubble(t, func(r *rig) {
		for range 10 {
			r.is(health.Dead, "b")
			r.says(time.Second - time.Millisecond)
			r.is(health.Serving, "b")
			r.says(time.Minute)
		}
		for _, state := range []health.State{health.Suspected, health.Slow, health.Restricted, health.Unknown} {
			r.is(state, "b")
			r.says(time.Hour)
		}
	})
}

// Repeated short outages count as one outage.
func TestFlappingIsOneOutage(t *testing.T) {
	inBubble(t, func(r *rig) {
		var all []string
		for range 100 {
			r.is(health.Dead, "b")
			out, _ := r.pass(time.Second / 2)
			r.is(health.Serving, "b")
			back, _ := r.pass(time.Second / 2)
			all = append(append(all, out...), back...)
		}
		require.Equal(r.t, []string{endpointOut}, all)
		end := r.says(time.Minute, endpointBack)[0]
		require.EqualValues(r.t, 99, end["flaps"])
		require.Equal(r.t, 99*time.Second+time.Second/2, end["out-for"])
	})
}

// An endpoint that fails repeatedly, in whatever rhythm, causes a few lines and then at most two
// per minute.
func TestLinesAreFew(t *testing.T) {
	for _, rhythm := range []time.Duration{1100 * time.Millisecond, 3 * time.Second, 10 * time.Second, 40 * time.Second} {
		grpctest.Bubble(t, rhythm.String(), func(t *testing.T) {
			r := newRig(t, nil, "a", "b", "c")
			for range 2 * time.Hour / (2 * rhythm) {
				r.is(health.Dead, "b")
				time.Sleep(rhythm)
				r.is(health.Serving, "b")
				time.Sleep(rhythm)
			}
			lines, _ := r.pass(0)
			require.NotEmpty(t, lines)
			require.LessOrEqual(t, len(lines), 16)
			r.pass(time.Hour)

			r.is(health.Dead, "b")
			r.says(10*time.Second, endpointOut)
			r.is(health.Serving, "b")
			r.says(time.Second, endpointBack)
		})
	}
}

func TestOutageOfTheCluster(t *testing.T) {
	inBubble(t, func(r *rig) {
		for _, ep := range []string{"a", "b", "c"} {
			r.is(health.Degraded, ep)
			r.says(100 * time.Millisecond)
		}
		r.Retried(observe.Retry{Err: errReset})
		start := r.says(time.Minute, clusterOut)[0]
		require.Equal(r.t, []any{
			"a: degraded (unresponsive: no answer: connection reset)",
			"b: degraded (unresponsive: no answer: connection reset)",
			"c: degraded (unresponsive: no answer: connection reset)",
		}, start["endpoints"])
		require.EqualValues(r.t, 1, start["retries"])

		r.is(health.Serving, "b")
		r.says(time.Second / 2)
		r.is(health.Serving, "a")
		end := r.says(time.Hour, clusterBack)[0]
		require.Equal(r.t, time.Minute+100*time.Millisecond, end["out-for"])
		require.Len(r.t, end["still-out"], 1)
		r.is(health.Serving, "c")
		require.Equal(r.t, "c", r.says(time.Hour, endpointBack)[0]["endpoint"])
	})
}

// An endpoint that was out before the others has its own lines. A short outage of all endpoints is not one of the cluster; if
// some stay out, they have their own lines.
func TestOutageOfTheClusterAndOfAnEndpoint(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.is(health.Dead, "a")
		r.says(time.Minute, endpointOut)
		r.is(health.Dead, "b", "c")
		require.Len(r.t, r.says(time.Minute, clusterOut)[0]["endpoints"], 3)
		r.is(health.Serving, "a", "b", "c")
		back := r.says(time.Hour, clusterBack, endpointBack)
		require.Empty(r.t, back[0]["still-out"])
		require.Equal(r.t, "a", back[1]["endpoint"])

		r.is(health.Dead, "a", "b", "c")
		r.says(time.Second / 2)
		r.is(health.Serving, "a")
		out := r.says(time.Minute, endpointOut, endpointOut)
		require.Equal(r.t, "b", out[0]["endpoint"])
		require.Equal(r.t, "c", out[1]["endpoint"])
	})
}

func TestWhatCountsAsAnOutageOfTheCluster(t *testing.T) {
	for third, want := range map[health.State][]string{
		health.Unknown:    {endpointOut, endpointOut},
		health.Restricted: {clusterOut},
		health.Suspected:  {endpointOut, endpointOut},
		health.Slow:       {endpointOut, endpointOut},
	} {
		grpctest.Bubble(t, third.String(), func(t *testing.T) {
			r := newRig(t, nil, "a", "b", "c")
			r.is(third, "c")
			r.is(health.Dead, "a", "b")
			r.says(time.Minute, want...)
		})
	}
}

func TestRemovedEndpoints(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.is(health.Dead, "b")
		r.says(time.Minute, endpointOut)
		r.EndpointsSet([]string{"a", "c"})
		removed := r.says(time.Second, endpointRemoved)[0]
		require.Equal(r.t, "b", removed["endpoint"])
		require.Equal(r.t, time.Minute, removed["out-for"])
		r.is(health.Draining, "b")
		r.is(health.Dead, "b")
		r.says(time.Hour)

		r.is(health.Dead, "a")
		r.EndpointsSet([]string{"c"})
		r.says(time.Hour)
		r.is(health.Dead, "c")
		r.says(time.Hour, clusterOut)
	})
}

// What makes the cluster out may be a change of an endpoint that is not out, or the removal of one without a state.
func TestOutageOfTheClusterByOtherEndpoints(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.is(health.Dead, "a")
		r.says(time.Minute, endpointOut)
		r.is(health.Restricted, "b", "c")
		r.says(time.Minute, clusterOut)
		r.is(health.Serving, "a")
		r.says(time.Minute, clusterBack, endpointBack)
	})
	inBubble(t, func(r *rig) {
		r.EndpointsSet([]string{"a", "d"})
		r.is(health.Dead, "a")
		r.says(time.Minute, endpointOut)
		r.EndpointsSet([]string{"a"})
		r.says(time.Minute, clusterOut)
	})
}

// During an outage the endpoints are replaced by others in an unknown state: the outage ends only
// when one serves.
func TestClusterWithOtherEndpoints(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.is(health.Dead, "a", "b", "c")
		r.says(time.Minute, clusterOut)
		r.EndpointsSet(nil)
		r.EndpointsSet([]string{"d", "e"})
		r.says(time.Minute)
		r.is(health.Dead, "d")
		r.says(time.Minute)
		r.is(health.Serving, "e")
		require.Equal(r.t, []any{"d: dead (unresponsive: no answer: connection reset)"}, r.says(time.Minute, clusterBack)[0]["still-out"])
	})
}

// A log that blocks does not block callers. What happens meanwhile counts as one outage.
func TestLogThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.DebugLevel)
		unblock := make(chan struct{})
		blocking := zap.New(core, zap.Hooks(func(zapcore.Entry) error {
			<-unblock
			return nil
		}))
		r := &rig{outage.New(func() *zap.Logger { return blocking }, nil), t, logs}
		defer r.Close()
		r.EndpointsSet([]string{"a", "b"})
		r.is(health.Serving, "a")
		started := time.Now()
		for _, state := range []health.State{health.Dead, health.Serving, health.Dead} {
			r.is(state, "b")
			time.Sleep(time.Minute)
		}
		require.Equal(t, 3*time.Minute, time.Since(started))
		require.Len(t, logs.All(), 1)
		close(unblock)
		r.says(time.Minute, endpointOut)
	})
}

// An outage whose reason changes has one more line, and no further one while the reason stays.
func TestAnotherReason(t *testing.T) {
	for name, tt := range map[string]struct {
		out  []string // the endpoints that are
		want [3]string
	}{
		"of an endpoint": {[]string{"b"}, [3]string{endpointOut, endpointChanged, endpointBack}},
		"of the cluster": {[]string{"a", "b", "c"}, [3]string{clusterOut, clusterChanged, clusterBack}},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			var untrusted atomic.Bool
			port := 1000
			r := newRig(t, func() (all []health.Status) {
				port++ // what differs with each attempt
				latest := fmt.Errorf("port %d: %w", port, errReset)
				if untrusted.Load() {
					latest = errors.New("x509: certificate signed by unknown authority")
				}
				for _, ep := range []string{"a", "b", "c"} {
					all = append(all, health.Status{Endpoint: ep, LastErr: latest, LastErrAt: time.Now()})
				}
				return all
			}, "a", "b", "c")
			for _, ep := range tt.out {
				r.StateChanged(health.Change{Endpoint: ep, To: health.Dead, Evidence: health.Evidence{Kind: health.ConnectFailed, Err: fmt.Errorf("port 7: %w", errReset)}})
			}
			r.says(time.Minute, tt.want[0])
			untrusted.Store(true)
			require.Contains(t, r.says(time.Hour, tt.want[1])[0]["last-error"], "x509")
			r.is(health.Serving, tt.out...)
			r.says(time.Hour, tt.want[2])
		})
	}
}

func TestCloseInAnOutage(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.is(health.Dead, "a")
		r.says(time.Minute, endpointOut)
		r.is(health.Dead, "b")
		r.Close()
		r.Close()
		r.is(health.Dead, "c")
		r.EndpointsSet(nil)
		r.says(time.Hour)
	})
}

// The race detector checks concurrent use.
func TestConcurrentUse(t *testing.T) {
	r := newRig(t, nil, "a", "b", "c")
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for i := range 1000 {
				r.is([]health.State{health.Dead, health.Serving}[i%2], "b")
				r.Retried(observe.Retry{Endpoint: "b", Err: errReset})
			}
		})
	}
	callers.Wait()
	r.Close()
	require.LessOrEqual(t, len(r.logs.All()), 2)
}

func ExampleReporter() {
	encoder := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "msg", LevelKey: "level", EncodeLevel: zapcore.LowercaseLevelEncoder})
	lines := make(chan string, 1)
	lg := zap.New(zapcore.NewCore(encoder, zapcore.AddSync(io.Discard), zapcore.InfoLevel), zap.Hooks(func(e zapcore.Entry) error {
		lines <- e.Level.String() + ": " + e.Message
		return nil
	}))

	r := outage.New(func() *zap.Logger { return lg }, nil)
	defer r.Close()
	r.EndpointsSet([]string{"10.0.0.1:2379", "10.0.0.2:2379"})
	r.StateChanged(health.Change{Endpoint: "10.0.0.1:2379", To: health.Serving})
	r.StateChanged(health.Change{Endpoint: "10.0.0.2:2379", To: health.Dead})
	fmt.Println(<-lines)
	// Output: warn: an endpoint is out
}

// What a change costs does not depend on the number of endpoints: thousands may change at once. A line names a few of them.
func TestManyEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		costs := map[int]int{}
		for _, n := range []int{1, 1000} {
			names := make([]string, n)
			for i := range names {
				names[i] = strconv.Itoa(i)
			}
			r := newRig(t, nil, names...)
			costs[n] = int(testing.AllocsPerRun(100, func() { r.is(health.Serving, "0") }))
			r.is(health.Dead, names...)
			line := r.says(time.Minute, clusterOut)[0]
			require.Len(t, line["endpoints"], min(n, 20))
			require.EqualValues(t, n, line["out"])
		}
		require.Equal(t, costs[1], costs[1000])
	})
}
