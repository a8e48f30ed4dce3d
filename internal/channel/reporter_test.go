package channel

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/observe"
)

// callRecorder records the events of calls.
type callRecorder struct {
	observe.None
	mu    sync.Mutex
	calls []observe.Call
	tries []observe.Attempt
	lines []string
	open  int // attempts
}

func (s *callRecorder) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *callRecorder) Called(e observe.Call) { s.locked(func() { s.calls = append(s.calls, e) }) }

func (s *callRecorder) Attempted(e observe.Attempt) {
	s.locked(func() { s.tries = append(s.tries, e) })
}

type recordKey struct{}

func (s *callRecorder) StartCall(ctx context.Context, method string) (context.Context, observe.CallTrace) {
	s.note("call %s", method)
	return context.WithValue(ctx, recordKey{}, "call"), (*recordedCall)(s)
}

func (s *callRecorder) note(format string, args ...any) {
	s.locked(func() { s.lines = append(s.lines, fmt.Sprintf(format, args...)) })
}

func (s *callRecorder) reset() {
	s.locked(func() { s.calls, s.tries, s.lines = nil, nil, nil })
}

// attempts returns how many attempts of the call were hedges, or were not.
func (s *callRecorder) attempts(hedge bool) (n int) {
	line := fmt.Sprintf("attempt, hedge %v, of a call", hedge)
	s.locked(func() { n = len(slices.DeleteFunc(slices.Clone(s.lines), func(l string) bool { return l != line })) })
	return n
}

type recordedCall callRecorder

func (s *recordedCall) StartAttempt(ctx context.Context, hedge bool) (context.Context, observe.AttemptTrace) {
	(*callRecorder)(s).note("attempt, hedge %v, of a %v", hedge, ctx.Value(recordKey{}))
	(*callRecorder)(s).locked(func() { s.open++ })
	return context.WithValue(ctx, recordKey{}, "attempt"), (*recordedAttempt)(s)
}

func (s *recordedCall) End(e observe.Call) {
	(*callRecorder)(s).note("end of the call: %v", status.Code(e.Err))
}

type recordedAttempt callRecorder

func (s *recordedAttempt) End(endpoint string, err error) {
	(*callRecorder)(s).note("end of an attempt at %s: %v", endpoint, status.Code(err))
	(*callRecorder)(s).locked(func() { s.open-- })
}

// reported runs a test with a channel that has an observer of calls.
func reported(t *testing.T, test func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, s *callRecorder)) {
	t.Helper()
	s := new(callRecorder)
	inBubble(t, func(cfg *Config) { cfg.Observer = observe.Multi(cfg.Observer, s) },
		func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *recorder) {
			s.reset()
			test(t, cluster, c, s)
		})
}

func TestFailedCallIsReported(t *testing.T) {
	reported(t, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, s *callRecorder) {
		var failed string
		cluster.Once("Put", func(call *fakeetcd.Call) {
			failed = call.Member.Endpoint()
			call.Answer(nil, status.Error(codes.Unavailable, "etcdserver: leader changed"))
		})
		require.Error(t, put(t.Context(), c), "a write is not repeated")
		require.NoError(t, put(t.Context(), c))
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Len(t, s.calls, 2)
		require.Equal(t, codes.Unavailable, status.Code(s.calls[0].Err))
		require.NoError(t, s.calls[1].Err)
		require.Zero(t, s.calls[0].Retries)
		require.Equal(t, []string{
			"call " + pb.KV_Put_FullMethodName, "attempt, hedge false, of a call",
			"end of an attempt at " + failed + ": Unavailable", "end of the call: Unavailable",
		}, s.lines[:4])
		require.Len(t, s.tries, 2)
		require.Equal(t, failed, s.tries[0].Endpoint)
	})
}

func TestRetryAndItsPauseAreReported(t *testing.T) {
	reported(t, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, s *callRecorder) {
		cluster.Once("Range", func(call *fakeetcd.Call) {
			call.Answer(nil, status.Error(codes.Unavailable, "etcdserver: request timed out"))
		})
		require.NoError(t, readK(t, c))
		require.Equal(t, 2, s.attempts(false))
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Len(t, s.calls, 1)
		require.Equal(t, 1, s.calls[0].Retries)
		require.NoError(t, s.calls[0].Err)
		require.LessOrEqual(t, s.calls[0].Paused, s.calls[0].Took)
		require.Len(t, s.tries, 2)
		require.Zero(t, s.open)
	})
}

func TestHedgeIsReported(t *testing.T) {
	reported(t, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, s *callRecorder) {
		holdOn(cluster, cluster.Member(0), "Range")
		for n := 0; s.attempts(true) == 0; n++ { // until a hedge goes to the silent member
			require.Less(t, n, 100)
			require.NoError(t, readK(t, c))
		}
		time.Sleep(time.Second) // the losing attempts end
		s.mu.Lock()
		defer s.mu.Unlock()
		require.True(t, slices.ContainsFunc(s.calls, func(e observe.Call) bool { return e.Hedged && e.Retries == 0 }))
		require.Contains(t, s.lines, "end of an attempt at "+cluster.Member(0).Endpoint()+": Canceled")
		require.Zero(t, s.open, "every attempt has ended")
	})
}

// Without an observer of calls there is no report and no cost.
func TestOnlyObserversOfCallsGetReports(t *testing.T) {
	require.Nil(t, newReporter(nil))
	require.Nil(t, newReporter(observe.None{}))
	require.Nil(t, newReporter(observe.Multi(new(recorder), new(recorder))))
	require.NotNil(t, newReporter(observe.Multi(new(recorder), new(callRecorder))))
}
