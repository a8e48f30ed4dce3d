package outage_test

import (
	"errors"
	"fmt"
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
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/outage"
)

var errReset = errors.New("connection reset")

// newReporter returns a reporter whose client has three serving endpoints, and its log.
func newReporter(t *testing.T) (*outage.Reporter, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.DebugLevel)
	lg := zap.New(core)
	r := outage.New(func() *zap.Logger { return lg }, nil)
	t.Cleanup(r.Close)
	r.EndpointsSet([]string{"a", "b", "c"})
	for _, ep := range []string{"a", "b", "c"} {
		is(r, ep, health.Serving)
	}
	return r, logs
}

func is(r *outage.Reporter, ep string, to health.State) {
	r.StateChanged(health.Change{Endpoint: ep, To: to, Evidence: health.Evidence{Kind: health.Unresponsive, Err: errReset, Detail: "no answer"}})
}

func messages(logs *observer.ObservedLogs) []string {
	var all []string
	for _, entry := range logs.All() {
		all = append(all, fmt.Sprintf("%v: %s", entry.Level, entry.Message))
	}
	return all
}

func TestLinesOfAnEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, logs := newReporter(t)
		began := time.Now()
		is(r, "b", health.Dead)
		r.Retried(observe.Retry{Endpoint: "b", Err: errReset})
		time.Sleep(20 * time.Second)
		for range 3 {
			r.FailedOver(observe.Failover{From: "b", To: "c", Err: errReset})
		}
		r.HedgeSent(observe.Hedge{First: "b", Second: "a"})
		r.OutcomeUnknown(observe.UnknownOutcome{Endpoint: "b", Err: errors.New("the last one")})
		is(r, "b", health.Serving)
		time.Sleep(time.Minute)

		require.Equal(t, []string{"warn: an endpoint is out", "info: an endpoint serves again"}, messages(logs))
		require.Equal(t, map[string]any{
			"endpoint": "b", "state": "dead", "evidence": "unresponsive", "detail": "no answer", "since": began,
			"retries": int64(1), "failovers": int64(0), "hedges": int64(0), "unknown-outcomes": int64(0),
			"last-error": "connection reset",
		}, logs.All()[0].ContextMap())
		require.Equal(t, map[string]any{
			"endpoint": "b", "state": "dead", "evidence": "unresponsive", "detail": "no answer", "since": began,
			"out-for": 20 * time.Second, "flaps": int64(0),
			"retries": int64(1), "failovers": int64(3), "hedges": int64(1), "unknown-outcomes": int64(1),
			"last-error": "the last one",
		}, logs.All()[1].ContextMap())
	})
}

func TestLinesOfTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, logs := newReporter(t)
		for _, ep := range []string{"a", "b", "c"} {
			is(r, ep, health.Degraded)
		}
		time.Sleep(time.Minute)
		is(r, "a", health.Serving)
		time.Sleep(time.Minute)
		r.EndpointsSet([]string{"a", "b"})
		time.Sleep(time.Minute)
		r.EndpointsSet([]string{"a"})
		time.Sleep(time.Minute)

		require.Equal(t, []string{
			"warn: no endpoint can serve", "info: the cluster serves again",
			"info: an endpoint that was out has been removed", "info: an endpoint that was out has been removed",
		}, messages(logs))
		var logged []map[string]any
		for _, entry := range logs.All() {
			logged = append(logged, entry.ContextMap())
		}
		require.Equal(t, []any{
			"a: degraded (unresponsive: no answer: connection reset)",
			"b: degraded (unresponsive: no answer: connection reset)",
			"c: degraded (unresponsive: no answer: connection reset)",
		}, logged[0]["endpoints"])
		require.Equal(t, time.Minute, logged[1]["out-for"])
		require.Len(t, logged[1]["still-out"], 2)
		require.Equal(t, "c", logged[2]["endpoint"])
		require.Equal(t, "b", logged[3]["endpoint"])
	})
}

// A log that blocks does not block callers, and all lines are written in order.
func TestLogThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.DebugLevel)
		unblock := make(chan struct{})
		blocking := zap.New(core, zap.Hooks(func(zapcore.Entry) error {
			<-unblock
			return nil
		}))
		r := outage.New(func() *zap.Logger { return blocking }, nil)
		defer r.Close()
		r.EndpointsSet([]string{"a", "b"})
		is(r, "a", health.Serving)
		is(r, "b", health.Dead)
		time.Sleep(time.Minute)
		started := time.Now()
		is(r, "b", health.Serving)
		time.Sleep(time.Minute)
		is(r, "b", health.Dead)
		require.Equal(t, time.Minute, time.Since(started))
		require.Len(t, logs.All(), 1)
		close(unblock)
		time.Sleep(time.Minute)
		require.Equal(t, []string{
			"warn: an endpoint is out", "info: an endpoint serves again", "warn: an endpoint is out",
		}, messages(logs))
	})
}

// An outage whose reason changes has one more line, and no further one while the reason stays.
func TestAnotherReason(t *testing.T) {
	for name, tt := range map[string]struct {
		out  []string // the endpoints that are
		want []string
	}{
		"of an endpoint": {[]string{"b"}, []string{
			"warn: an endpoint is out", "warn: an endpoint is out for another reason", "info: an endpoint serves again",
		}},
		"of the cluster": {[]string{"a", "b", "c"}, []string{
			"warn: no endpoint can serve", "warn: no endpoint can serve, for another reason", "info: the cluster serves again",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zapcore.DebugLevel)
				lg := zap.New(core)
				var untrusted atomic.Bool
				port := 1000
				r := outage.New(func() *zap.Logger { return lg }, func() (all []health.Status) {
					port++ // what differs with each attempt
					latest := fmt.Errorf("port %d: %w", port, errReset)
					if untrusted.Load() {
						latest = errors.New("x509: certificate signed by unknown authority")
					}
					for _, ep := range []string{"a", "b", "c"} {
						all = append(all, health.Status{Endpoint: ep, LastErr: latest, LastErrAt: time.Now()})
					}
					return all
				})
				defer r.Close()
				r.EndpointsSet([]string{"a", "b", "c"})
				for _, ep := range []string{"a", "b", "c"} {
					is(r, ep, health.Serving)
				}
				for _, ep := range tt.out {
					r.StateChanged(health.Change{Endpoint: ep, To: health.Dead, Evidence: health.Evidence{Kind: health.ConnectFailed, Err: fmt.Errorf("port 7: %w", errReset)}})
				}
				time.Sleep(time.Minute)
				require.Equal(t, tt.want[:1], messages(logs), "the reason is the same")
				untrusted.Store(true)
				time.Sleep(time.Hour)
				require.Equal(t, tt.want[:2], messages(logs))
				require.Contains(t, logs.All()[1].ContextMap()["last-error"], "x509")
				for _, ep := range tt.out {
					is(r, ep, health.Serving)
				}
				time.Sleep(time.Hour)
				require.Equal(t, tt.want, messages(logs))
			})
		})
	}
}

func TestCloseInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, logs := newReporter(t)
		is(r, "a", health.Dead)
		time.Sleep(time.Minute)
		is(r, "b", health.Dead)
		r.Close()
		r.Close()
		is(r, "c", health.Dead)
		r.EndpointsSet(nil)
		time.Sleep(time.Hour)
		require.Len(t, logs.All(), 1)
	})
}

// The race detector checks concurrent use.
func TestConcurrentUse(t *testing.T) {
	r, logs := newReporter(t)
	var tellers sync.WaitGroup
	for range 4 {
		tellers.Go(func() {
			for i := range 1000 {
				is(r, "b", []health.State{health.Dead, health.Serving}[i%2])
				r.Retried(observe.Retry{Endpoint: "b", Err: errReset})
			}
		})
	}
	tellers.Wait()
	r.Close()
	require.LessOrEqual(t, len(logs.All()), 2)
}

func ExampleReporter() {
	encoder := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "msg", LevelKey: "level", EncodeLevel: zapcore.LowercaseLevelEncoder})
	lines := make(chan string, 1)
	lg := zap.New(zapcore.NewCore(encoder, zapcore.AddSync(discard{}), zapcore.InfoLevel), zap.Hooks(func(e zapcore.Entry) error {
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

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
