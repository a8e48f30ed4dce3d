package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/pause"
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
func start(t *testing.T, conn client.Connection, callers int) *run {
	return startWithin(t.Context(), conn, callers)
}

func startWithin(ctx context.Context, conn client.Connection, callers int) *run {
	r := newRun(Config{Callers: callers, Pause: 5 * time.Millisecond, CallTimeout: 10 * time.Second, LeaseTTL: 3 * time.Second, Seed: 1})
	r.env = &robustness.Env{Log: robustness.NewLog(io.Discard)}
	r.conn = conn
	r.beginRow("healthy")
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
		r := start(t, client.Connection{Store: store}, 2)
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
		counters := 0
		for _, c := range r.of(history.LinearizableGet) {
			if strings.HasPrefix(c.Key, r.prefix+"counter/") {
				counters++
			}
		}
		assert.InDelta(t, 200, counters, 100, "the others read what was put")
		last := r.of(history.Txn)
		for caller := range 2 {
			mine := slices.DeleteFunc(slices.Clone(last), func(c history.Call) bool { return c.Caller != caller })
			assert.Equal(t, fmt.Sprint(len(mine)), store.keys[counterOf(r.prefix, caller)].Value,
				"every increment was applied")
		}
	})
}

func TestCallersBeginWhenWatchesAndLeasesStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		slow := &renter{store: store, began: time.Now(), grantErr: errors.New("not yet"), renewals: 100}
		r := start(t, client.Connection{Store: store, Watcher: &script{}, Lessor: slow}, 1)
		assert.Len(t, slow.grants, 1)
		time.Sleep(time.Second)
		r.end(t.Context())
		require.NotEmpty(t, r.rec.Calls)
		for _, c := range r.rec.Calls {
			require.GreaterOrEqual(t, c.Start, slow.grants[0])
			require.GreaterOrEqual(t, c.Start, r.load.readers[0].Watches[0].Returned)
		}
	})
}

func TestCallersDoNotWaitForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		r := startWithin(ctx, client.Connection{Store: newMemory(), Lessor: &renter{never: true}}, 1)
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
		r := start(t, client.Connection{Store: store}, 3)
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
			if !strings.HasPrefix(key, r.prefix+"counter/") {
				assert.EqualValues(t, 1, kv.Version, key)
			}
		}
	})
}

// TestCallsEnd has each call take a time, and the load run for one; then it waits for the calls under way as long as its
// patience lasts.
func TestCallsEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		takes, runs, patience time.Duration
		reads, writes         history.Outcome
		lasts                 time.Duration
	}{
		"by themselves":           {time.Second, 500 * time.Millisecond, time.Minute, history.OK, history.OK, time.Second},
		"at their deadline":       {time.Hour, 11 * time.Second, 0, history.Failed, history.Unknown, 10 * time.Second},
		"as the patience is over": {time.Hour, time.Second, time.Second, history.Abandoned, history.Abandoned, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newMemory()
				store.before = func(ctx context.Context, _ history.Kind, _ string) error { return pause.For(ctx, tt.takes) }
				r := start(t, client.Connection{Store: store}, 1)
				time.Sleep(tt.runs)
				ctx, cancel := context.WithTimeout(t.Context(), tt.patience)
				defer cancel()
				r.end(ctx)
				for _, k := range history.Kinds() {
					first, want := r.of(k)[0], tt.reads
					if k.Writes() {
						want = tt.writes
					}
					assert.Equal(t, want, first.Outcome)
					assert.Equal(t, want != history.OK, first.Err != nil)
					assert.InDelta(t, tt.lasts, first.End-first.Start, float64(10*time.Millisecond))
				}
			})
		})
	}
}

func TestSettleWaitsForEarlierCallsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		slow := true
		var mu sync.Mutex
		store.before = func(_ context.Context, k history.Kind, _ string) error {
			mu.Lock()
			wait := slow && k == history.Put
			slow = slow && !wait
			mu.Unlock()
			if wait { // the first put only
				time.Sleep(3 * time.Second)
			}
			return nil
		}
		r := start(t, client.Connection{Store: store}, 2)
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
