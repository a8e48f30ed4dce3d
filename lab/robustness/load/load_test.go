package load

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// book records everything.
type book struct {
	mu      sync.Mutex
	invoked int
	calls   []history.Call
	watches []*page
	leases  []history.LeaseEvent
	looks   []history.LeaseLook
}

func (b *book) Invoke(history.Call) func(history.Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.invoked++
	return func(c history.Call) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls = append(b.calls, c)
	}
}

// of returns the recorded calls of one kind, in the order in which they ended.
func (b *book) of(k history.Kind) []history.Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.calls), func(c history.Call) bool { return c.Kind != k })
}

func start(store client.Store, rec Recorder, callers int) *Load {
	return startAll(client.Services{Store: store}, rec, callers)
}

func startAll(services client.Services, rec Recorder, callers int) *Load {
	return startWithin(context.Background(), services, rec, callers)
}

func startWithin(ctx context.Context, services client.Services, rec Recorder, callers int) *Load {
	began := time.Now()
	return Start(ctx, services, rec, Config{
		Callers: callers, Pause: 5 * time.Millisecond, Timeout: 10 * time.Second,
		Prefix: "/lab/", Revision: 2, LeasePrefix: "/leases/", LeaseTTL: 3 * time.Second,
		Seed: 1, Now: func() time.Duration { return time.Since(began) },
	})
}

// end ends a load altogether.
func end(ctx context.Context, l *Load) {
	l.Stop(ctx)
	l.EndWatches()
}

func TestEveryKindIsCalledAtItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := newMemory(), &book{}
		l := start(store, b, 2)
		time.Sleep(time.Second)
		end(t.Context(), l)
		for _, k := range history.Kinds() {
			calls := b.of(k)
			assert.InDelta(t, 400, len(calls), 4, "two callers with 5 ms between calls: %s", k)
			for _, c := range calls {
				require.Equal(t, history.OK, c.Outcome)
				require.Positive(t, c.Revision)
			}
		}
		spaces := map[history.Space]int{}
		for _, c := range b.of(history.LinearizableGet) {
			spaces[c.Key.Space]++
		}
		assert.Greater(t, spaces[history.Counters], 100)
		assert.Greater(t, spaces[history.Puts], 100)
		last := b.of(history.Txn)
		for caller := range 2 {
			mine := slices.DeleteFunc(slices.Clone(last), func(c history.Call) bool { return c.Caller != caller })
			assert.Equal(t, fmt.Sprint(len(mine)), store.keys[history.CounterOf(caller).Path("/lab/")].Value,
				"every increment was applied")
		}
	})
}

func TestCallersBeginWhenWatchesAndLeasesStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, store := &book{}, newMemory()
		slow := &renter{store: store, grantErr: errors.New("not yet"), renewals: 100}
		l := startAll(client.Services{Store: store, Watcher: &script{}, Lessor: slow}, b, 1)
		assert.Len(t, b.ofLease(history.LeaseGranted), 1)
		time.Sleep(time.Second)
		end(t.Context(), l)
		require.NotEmpty(t, b.calls)
		for _, c := range b.calls {
			require.GreaterOrEqual(t, c.Start, b.ofLease(history.LeaseGranted)[0].At)
			require.GreaterOrEqual(t, c.Start, b.watches[0].returned)
		}
	})
}

func TestCallersDoNotWaitForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b := &book{}
		began := time.Now()
		l := startWithin(ctx, client.Services{Store: newMemory(), Lessor: &renter{never: true}}, b, 1)
		assert.Equal(t, time.Second, time.Since(began))
		time.Sleep(time.Second)
		end(t.Context(), l)
		assert.NotEmpty(t, b.calls)
	})
}

func TestKeysAreWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := newMemory(), &book{}
		n := 0
		store.after = func(k history.Kind) error { // executed, and the answer is lost
			if n++; n%5 == 0 && k.Writes() {
				return &retry.UnknownOutcomeError{Method: k.String(), Err: status.Error(codes.Unavailable, "cut")}
			}
			return nil
		}
		l := start(store, b, 3)
		time.Sleep(time.Second)
		end(t.Context(), l)
		refused := 0
		for _, c := range b.of(history.Txn) {
			if c.Outcome == history.OK && !c.Applied {
				refused++
				assert.True(t, c.Read.Found)
			}
		}
		assert.Positive(t, refused, "an increment whose answer was lost shows in the next comparison")
		for key, kv := range store.keys {
			k, err := history.ParseKey("/lab/", key)
			require.NoError(t, err)
			if k.Space != history.Counters {
				assert.EqualValues(t, 1, kv.Version, key)
			}
		}
	})
}

func TestStopWaitsForCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := newMemory(), &book{}
		store.before = func(ctx context.Context, _ history.Kind) error {
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		l := start(store, b, 1)
		time.Sleep(500 * time.Millisecond)
		end(t.Context(), l)
		assert.Len(t, b.calls, 4)
		for _, c := range b.calls {
			assert.Equal(t, history.OK, c.Outcome)
			assert.Equal(t, time.Second, c.End-c.Start)
		}
	})
}

func TestStopCutsShortOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := newMemory(), &book{}
		store.before = func(ctx context.Context, _ history.Kind) error { <-ctx.Done(); return ctx.Err() }
		l := start(store, b, 1)
		time.Sleep(500 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		end(ctx, l)
		assert.Equal(t, time.Second, time.Since(began))
		require.Len(t, b.calls, 4)
		for _, c := range b.calls {
			assert.Equal(t, history.Abandoned, c.Outcome)
		}
	})
}

func TestCallsHaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := newMemory(), &book{}
		store.before = func(ctx context.Context, _ history.Kind) error { <-ctx.Done(); return ctx.Err() }
		l := start(store, b, 1)
		time.Sleep(11 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		end(ctx, l)
		for _, k := range history.Kinds() {
			first := b.of(k)[0]
			want := history.Failed
			if k.Writes() {
				want = history.Unknown
			}
			assert.Equal(t, want, first.Outcome)
			assert.Equal(t, "DeadlineExceeded", first.Code)
			assert.Equal(t, 10*time.Second, first.End-first.Start)
		}
	})
}

func TestSettleWaitsForEarlierCallsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := newMemory(), &book{}
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
		l := start(store, b, 2)
		time.Sleep(100 * time.Millisecond)
		expired, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, l.Settle(expired), context.DeadlineExceeded)
		began := time.Now()
		require.NoError(t, l.Settle(t.Context()), "a later call waits for the first wave as well")
		assert.InDelta(t, 1.9, time.Since(began).Seconds(), 0.02)
		began = time.Now()
		require.NoError(t, l.Settle(t.Context()))
		assert.Less(t, time.Since(began), 20*time.Millisecond)
		end(t.Context(), l)
	})
}

func TestOutcome(t *testing.T) {
	unknown := &retry.UnknownOutcomeError{Method: "/etcdserverpb.KV/Put", Err: status.Error(codes.Unavailable, "reset")}
	tests := []struct {
		name  string
		err   error
		write history.Outcome
		code  string
	}{
		{"no error", nil, history.OK, ""},
		{"unknown outcome", unknown, history.Unknown, "Unavailable"},
		{"wrapped unknown outcome", fmt.Errorf("put: %w", unknown), history.Unknown, "Unavailable"},
		{"bare deadline", context.DeadlineExceeded, history.Unknown, "DeadlineExceeded"},
		{"bare cancellation", context.Canceled, history.Unknown, "Canceled"},
		{"an error nobody knows", errors.New("boom"), history.Unknown, "Unknown"},
		{"definite", status.Error(codes.InvalidArgument, "etcdserver: key is not provided"), history.Failed, "InvalidArgument"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.write, outcome(history.Put, tt.err))
			assert.Equal(t, tt.write, outcome(history.Txn, tt.err))
			read := history.Failed
			if tt.err == nil {
				read = history.OK
			} else {
				assert.Equal(t, tt.code, code(tt.err))
			}
			assert.Equal(t, read, outcome(history.LinearizableGet, tt.err))
			assert.Equal(t, read, outcome(history.SerializableGet, tt.err))
		})
	}
}
