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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/retry"
)

func TestMain(m *testing.M) { labtest.Verify(m) }

// start starts a load without a cluster. Its client has the store and, beside it, a watcher or a lessor if there is one.
func start(t *testing.T, store *memory, callers int, beside ...any) *run {
	cfg := Config{Callers: callers, Pause: 5 * time.Millisecond, CallTimeout: 10 * time.Second, LeaseTTL: 3 * time.Second}
	cfg.Seed = 1
	r := newRun(cfg)
	r.env = &robustness.Env{Log: robustness.NewLog(io.Discard), Outcome: robustness.Outcome{Counts: &robustness.Counts{}}}
	r.conn = client.Connection{KV: store}
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
func (r *run) end() {
	r.load.stop()
	r.load.endWatches()
}

// of returns the recorded calls of one kind, in the order in which they ended.
func (r *run) of(k model.Kind) []call {
	return slices.DeleteFunc(r.load.calls(), func(c call) bool { return c.Request.Kind != k })
}

func TestEveryKindIsCalledAtItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		r := start(t, store, 2)
		time.Sleep(2500 * time.Millisecond)
		r.end()
		for _, k := range kinds {
			calls := r.of(k)
			assert.InDelta(t, 1000, len(calls), 8, "two callers with 5 ms between calls: %s", k)
			for _, c := range calls {
				require.Equal(t, history.OK, c.Outcome)
				require.Positive(t, c.Response.Revision)
				require.True(t, c.Response.Succeeded, "every txn knows its counter")
			}
		}
		read := map[string]int{}
		for _, c := range r.of(model.Get) {
			read[c.group.keys(r.prefix)[c.Request.Then[0].Key]]++
		}
		assert.Len(t, read, 2*2*3, "what two callers put and count, in three seconds: %v", read)
		assert.Len(t, store.keys, 2*3*3)
	})
}

func TestCallersDoNotWaitForLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newMemory(), 1, &memoryLessor{never: true})
		time.Sleep(time.Second)
		r.end()
		require.NotEmpty(t, r.load.calls())
		assert.GreaterOrEqual(t, r.load.calls()[0].Call, startPause)
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
		r.end()
		refused, values := 0, map[string]bool{}
		for _, c := range r.of(model.Txn) {
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

// TestCallsEnd has each call take a time, and the load run for one; then it waits for the calls under way.
func TestCallsEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		takes, runs   time.Duration
		reads, writes history.Outcome
		lasts         time.Duration
	}{
		"by themselves":     {time.Second, 500 * time.Millisecond, history.OK, history.OK, time.Second},
		"at their deadline": {time.Hour, 5 * time.Second, history.Failed, history.Unknown, 10 * time.Second},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			store := newMemory()
			store.before = func(ctx context.Context, _ model.Kind, _ string) error { return pause.For(ctx, tt.takes) }
			r := start(t, store, 1)
			time.Sleep(tt.runs)
			r.end()
			for _, k := range kinds {
				first, want := r.of(k)[0], tt.reads
				if first.Request.Kind.Writes() {
					want = tt.writes
				}
				assert.Equal(t, want, first.Outcome)
				assert.Equal(t, want != history.OK, first.Err != "" && first.failure != nil)
				assert.InDelta(t, tt.lasts, first.Return-first.Call, float64(10*time.Millisecond))
			}
		})
	}
}

func TestSettleWaitsForCallsUnderWay(t *testing.T) {
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
		require.ErrorIs(t, r.load.settle(expired), context.DeadlineExceeded)
		require.NoError(t, r.load.settle(t.Context()))
		assert.InDelta(t, startPause+3*time.Second, r.env.Now(), float64(20*time.Millisecond), "other calls go on")
		r.end()
	})
}

// memory is a client.KV in memory. before, if set, is called ahead of every call
// and may wait; after, if set, may replace the result of a call that was
// executed by an error.
type memory struct {
	before func(ctx context.Context, k model.Kind, key string) error
	after  func(k model.Kind) error

	mu       sync.Mutex
	revision int64
	keys     map[string]model.KV
}

func newMemory() *memory {
	return &memory{revision: 1, keys: map[string]model.KV{}}
}

// do executes a call under the lock, between before and after.
func (m *memory) do(ctx context.Context, k model.Kind, key string, execute func()) error {
	if m.before != nil {
		if err := m.before(ctx, k, key); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	execute()
	if m.after != nil {
		return m.after(k)
	}
	return nil
}

func (m *memory) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (response model.Response, err error) {
	err = m.do(ctx, request.Kind, keys[request.Then[0].Key], func() {
		acts, wrote := request.Then, false
		response.Succeeded = true
		for _, c := range request.If {
			if m.keys[keys[c.Key]].ModRevision != c.Number {
				acts, response.Succeeded = request.Else, false
			}
		}
		for _, act := range acts {
			key, result := keys[act.Key], model.Result{}
			if act.Verb == model.Write {
				m.keys[key] = model.KV{Value: act.Value, ModRevision: m.revision + 1, Version: m.keys[key].Version + 1}
				wrote = true
			} else {
				result.KV = m.keys[key]
			}
			response.Results = append(response.Results, result)
		}
		if wrote {
			m.revision++
		}
		response.Revision = m.revision
	})
	return response, err
}
