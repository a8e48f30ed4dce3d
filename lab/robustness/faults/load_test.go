package faults

import (
	"context"
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

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/lab/robustness/report"
	"github.com/quorate/quorate/retry"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// start starts a load without a cluster, whose client also has what is beside the store: a watcher or a lessor.
func start(t *testing.T, store *memory, callers int, beside ...any) *run {
	cfg := Config{Callers: callers, Pause: 5 * time.Millisecond, CallTimeout: 10 * time.Second, LeaseTTL: 3 * time.Second}
	cfg.Seed = 1
	r := newRun(cfg)
	r.env = &robustness.Env{Log: robustness.NewLog(io.Discard), Outcome: robustness.Outcome{Counts: &robustness.Counts{}}}
	r.conn, r.record = store.connection(), store
	for _, part := range beside {
		switch part := part.(type) {
		case client.Watcher:
			r.conn.Watcher = part
		case client.Lessor:
			r.conn.Lessor = part
		}
	}
	r.beginRow("healthy")
	r.load = r.startLoad(t.Context(), 2)
	return r
}

// end ends a load altogether.
func (r *run) end(ctx context.Context) {
	r.load.stop(ctx)
	r.load.endWatches()
}

// of returns the recorded calls of one kind, in the order in which they ended.
func (r *run) of(k history.Kind) []report.Call {
	return slices.DeleteFunc(slices.Clone(r.rec.Calls), func(c report.Call) bool { return c.Kind != k })
}

func TestEveryKindIsCalledAtItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		r := start(t, store, 2)
		time.Sleep(2500 * time.Millisecond)
		r.end(t.Context())
		for _, k := range history.Kinds() {
			calls := r.of(k)
			assert.InDelta(t, 1000, len(calls), 8, "two callers with 5 ms between calls: %s", k)
			for _, c := range calls {
				require.Equal(t, history.OK, c.Outcome)
				require.Positive(t, c.Response.Revision)
				require.True(t, c.Response.Succeeded, "every txn knows its counter")
			}
		}
		read := map[string]int{}
		for _, c := range r.of(history.LinearizableGet) {
			read[c.Keys[c.Request.Then[0].Key]]++
		}
		assert.Len(t, read, 2*2*3, "what two callers put and count, in three seconds: %v", read)
		assert.Len(t, store.keys, 2*3*3)
	})
}

func TestCallersDoNotWaitForLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newMemory(), 1, &renter{never: true})
		time.Sleep(time.Second)
		r.end(t.Context())
		require.NotEmpty(t, r.rec.Calls)
		assert.GreaterOrEqual(t, r.rec.Calls[0].Call, startPause)
	})
}

// TestTxnsLearnTheirCounterAgain loses answers of calls that were executed.
func TestTxnsLearnTheirCounterAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		n := 0
		store.after = func(k model.Kind) error {
			if n++; n%5 == 0 && k.Writes() {
				return &retry.UnknownOutcomeError{Method: string(k), Err: status.Error(codes.Unavailable, "cut")}
			}
			return nil
		}
		r := start(t, store, 3)
		time.Sleep(time.Second)
		r.end(t.Context())
		refused, values := 0, map[string]bool{}
		for _, c := range r.of(history.Txn) {
			assert.False(t, values[c.Request.Then[0].Value], "no value is written twice")
			values[c.Request.Then[0].Value] = true
			if c.Outcome == history.OK && !c.Response.Succeeded {
				refused++
			}
		}
		assert.Positive(t, refused, "a txn whose answer was lost shows in the next comparison")
		assert.Less(t, refused, len(values)/2, "which tells the revision")
	})
}

// TestCallsEnd has each call take a time, and the load run for one; then it waits for the calls under way as long as its
// timeout lasts.
func TestCallsEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		takes, runs, timeout time.Duration
		reads, writes        history.Outcome
		lasts                time.Duration
	}{
		"by themselves":         {time.Second, 500 * time.Millisecond, time.Minute, history.OK, history.OK, time.Second},
		"at their deadline":     {time.Hour, 11 * time.Second, 0, history.Failed, history.Unknown, 10 * time.Second},
		"as the timeout passes": {time.Hour, time.Second, time.Second, history.Abandoned, history.Abandoned, 2 * time.Second},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			store := newMemory()
			store.before = func(ctx context.Context, _ model.Kind, _ string) error { return pause.For(ctx, tt.takes) }
			r := start(t, store, 1)
			time.Sleep(tt.runs)
			ctx := grpctest.Within(t, tt.timeout)
			r.end(ctx)
			for _, k := range history.Kinds() {
				first, want := r.of(k)[0], tt.reads
				if first.Request.Kind.Writes() {
					want = tt.writes
				}
				assert.Equal(t, want, first.Outcome)
				assert.Equal(t, want != history.OK, first.Err != "" && first.Failure != nil)
				assert.InDelta(t, tt.lasts, first.Return-first.Call, float64(10*time.Millisecond))
			}
		})
	}
}

func TestSettleWaitsForEarlierCallsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		slow := true
		var mu sync.Mutex
		store.before = func(_ context.Context, k model.Kind, _ string) error {
			mu.Lock()
			wait := slow && k == model.Put
			slow = slow && !wait
			mu.Unlock()
			if wait { // the first put only
				time.Sleep(3 * time.Second)
			}
			return nil
		}
		r := start(t, store, 2)
		time.Sleep(100 * time.Millisecond)
		expired := grpctest.Within(t, time.Second)
		require.ErrorIs(t, r.load.calls.settle(expired), context.DeadlineExceeded)
		began := time.Now()
		require.NoError(t, r.load.calls.settle(t.Context()), "which does not wait for what began before the last settle")
		assert.Less(t, time.Since(began), 20*time.Millisecond)
		r.end(t.Context())
	})
}
