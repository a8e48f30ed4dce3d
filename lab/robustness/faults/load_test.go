package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/retry"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// start starts a load without a cluster.
func start(t *testing.T, services client.Services, callers int) *run {
	return startWithin(t.Context(), services, callers)
}

func startWithin(ctx context.Context, services client.Services, callers int) *run {
	r := newRun(Config{Callers: callers, Pause: 5 * time.Millisecond, CallTimeout: 10 * time.Second, LeaseTTL: 3 * time.Second, Seed: 1})
	r.env = &robustness.Env{Log: robustness.NewLog(io.Discard)}
	r.conn.Services = services
	r.load = r.startLoad(ctx, 2)
	return r
}

// end ends a load altogether.
func (r *run) end(ctx context.Context) {
	r.load.stop(ctx)
	r.load.endWatches()
}

// of returns the recorded calls of one kind, in the order in which they ended.
func (r *run) of(k history.Kind) []history.Call {
	return slices.DeleteFunc(slices.Clone(r.rec.Calls), func(c history.Call) bool { return c.Kind != k })
}

func TestEveryKindIsCalledAtItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		r := start(t, client.Services{Store: store}, 2)
		time.Sleep(time.Second)
		r.end(t.Context())
		for _, k := range history.Kinds() {
			calls := r.of(k)
			assert.InDelta(t, 400, len(calls), 4, "two callers with 5 ms between calls: %s", k)
			for _, c := range calls {
				require.Equal(t, history.OK, c.Outcome)
				require.Positive(t, c.Revision)
			}
		}
		spaces := map[history.Space]int{}
		for _, c := range r.of(history.LinearizableGet) {
			spaces[c.Key.Space]++
		}
		assert.Greater(t, spaces[history.Counters], 100)
		assert.Greater(t, spaces[history.Puts], 100)
		last := r.of(history.Txn)
		for caller := range 2 {
			mine := slices.DeleteFunc(slices.Clone(last), func(c history.Call) bool { return c.Caller != caller })
			assert.Equal(t, fmt.Sprint(len(mine)), store.keys[history.CounterOf(caller).Path(r.rec.Prefix)].Value,
				"every increment was applied")
		}
	})
}

func TestCallersBeginWhenWatchesAndLeasesStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		slow := &renter{store: store, grantErr: errors.New("not yet"), renewals: 100}
		r := start(t, client.Services{Store: store, Watcher: &script{}, Lessor: slow}, 1)
		assert.Len(t, r.ofLease(history.LeaseGranted), 1)
		time.Sleep(time.Second)
		r.end(t.Context())
		require.NotEmpty(t, r.rec.Calls)
		for _, c := range r.rec.Calls {
			require.GreaterOrEqual(t, c.Start, r.ofLease(history.LeaseGranted)[0].At)
			require.GreaterOrEqual(t, c.Start, r.load.readers[0].watches[0].Returned)
		}
	})
}

func TestCallersDoNotWaitForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		r := startWithin(ctx, client.Services{Store: newMemory(), Lessor: &renter{never: true}}, 1)
		assert.Equal(t, time.Second, time.Since(began))
		time.Sleep(time.Second)
		r.end(t.Context())
		assert.NotEmpty(t, r.rec.Calls)
	})
}

func TestKeysAreWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		n := 0
		store.after = func(k history.Kind) error { // executed, and the answer is lost
			if n++; n%5 == 0 && k.Writes() {
				return &retry.UnknownOutcomeError{Method: k.String(), Err: status.Error(codes.Unavailable, "cut")}
			}
			return nil
		}
		r := start(t, client.Services{Store: store}, 3)
		time.Sleep(time.Second)
		r.end(t.Context())
		refused := 0
		for _, c := range r.of(history.Txn) {
			if c.Outcome == history.OK && !c.Applied {
				refused++
				assert.True(t, c.Read.Found)
			}
		}
		assert.Positive(t, refused, "an increment whose answer was lost shows in the next comparison")
		for key, kv := range store.keys {
			k, err := history.ParseKey(r.rec.Prefix, key)
			require.NoError(t, err)
			if k.Space != history.Counters {
				assert.EqualValues(t, 1, kv.Version, key)
			}
		}
	})
}

func TestStopWaitsForCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		store.before = func(ctx context.Context, _ history.Kind) error {
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		r := start(t, client.Services{Store: store}, 1)
		time.Sleep(500 * time.Millisecond)
		r.end(t.Context())
		assert.Len(t, r.rec.Calls, 4)
		for _, c := range r.rec.Calls {
			assert.Equal(t, history.OK, c.Outcome)
			assert.Equal(t, time.Second, c.End-c.Start)
		}
	})
}

func TestStopCutsShortOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		store.before = func(ctx context.Context, _ history.Kind) error { <-ctx.Done(); return ctx.Err() }
		r := start(t, client.Services{Store: store}, 1)
		time.Sleep(500 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		r.end(ctx)
		assert.Equal(t, time.Second, time.Since(began))
		require.Len(t, r.rec.Calls, 4)
		for _, c := range r.rec.Calls {
			assert.Equal(t, history.Abandoned, c.Outcome)
		}
	})
}

func TestCallsHaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		store.before = func(ctx context.Context, _ history.Kind) error { <-ctx.Done(); return ctx.Err() }
		r := start(t, client.Services{Store: store}, 1)
		time.Sleep(11 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.end(ctx)
		for _, k := range history.Kinds() {
			first := r.of(k)[0]
			want := history.Failed
			if k.Writes() {
				want = history.Unknown
			}
			assert.Equal(t, want, first.Outcome)
			require.ErrorIs(t, first.Err, context.DeadlineExceeded)
			assert.Equal(t, 10*time.Second, first.End-first.Start)
		}
	})
}

func TestSettleWaitsForEarlierCallsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		slow := true
		var mu sync.Mutex
		store.before = func(_ context.Context, k history.Kind) error {
			mu.Lock()
			wait := slow && k == history.Put
			slow = slow && !wait
			mu.Unlock()
			if wait { // the first put only
				time.Sleep(3 * time.Second)
			}
			return nil
		}
		r := start(t, client.Services{Store: store}, 2)
		time.Sleep(100 * time.Millisecond)
		expired, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.load.calls.settle(expired), context.DeadlineExceeded)
		began := time.Now()
		require.NoError(t, r.load.calls.settle(t.Context()), "which does not wait for what began before the last settle")
		assert.Less(t, time.Since(began), 20*time.Millisecond)
		r.end(t.Context())
	})
}

func TestOutcome(t *testing.T) {
	unknown := &retry.UnknownOutcomeError{Method: "/etcdserverpb.KV/Put", Err: status.Error(codes.Unavailable, "reset")}
	tests := []struct {
		name  string
		err   error
		write history.Outcome
	}{
		{"no error", nil, history.OK},
		{"unknown outcome", unknown, history.Unknown},
		{"wrapped unknown outcome", fmt.Errorf("put: %w", unknown), history.Unknown},
		{"bare deadline", context.DeadlineExceeded, history.Unknown},
		{"bare cancellation", context.Canceled, history.Unknown},
		{"an error nobody knows", errors.New("boom"), history.Unknown},
		{"definite", status.Error(codes.InvalidArgument, "etcdserver: key is not provided"), history.Failed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.write, outcome(history.Put, tt.err))
			assert.Equal(t, tt.write, outcome(history.Txn, tt.err))
			read := history.Failed
			if tt.err == nil {
				read = history.OK
			}
			assert.Equal(t, read, outcome(history.LinearizableGet, tt.err))
			assert.Equal(t, read, outcome(history.SerializableGet, tt.err))
		})
	}
}
