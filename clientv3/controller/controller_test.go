package controller_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/controller"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errFailed = errors.New("failed")

// rig is an informer of "a/" over a cluster in memory.
type rig struct {
	cluster *fakeetcd.Cluster
	client  *clientv3.Client
	in      *cache.Informer[string]
}

func newRig(t *testing.T) *rig {
	t.Helper()
	cluster, client := clienttest.StartClient(t, 1)
	c := clienttest.Must(cache.New(client, cache.Config{Prefixes: []string{"a/"}}))
	t.Cleanup(c.Close)
	in := clienttest.Must(cache.NewInformer(c, cache.InformerConfig[string]{Decode: func(_, value []byte) (string, error) { return string(value), nil }}))
	return &rig{cluster, client, in}
}

func (r *rig) put(t *testing.T, key, value string) {
	t.Helper()
	clienttest.Put(t, r.cluster, key, value)
}

// run starts a controller, and returns a function that ends it.
func (r *rig) run(t *testing.T, cfg controller.Config[string], reconcile func(context.Context, string) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx, r.in, cfg, reconcile) }()
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// TestRun reconciles existing, changed and deleted keys. A key that changes while it is reconciled comes once more.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put(t, "a/1", "v")
		r.put(t, "a/2", "v")
		began, release := make(chan string), make(chan struct{})
		stop := r.run(t, controller.Config[string]{Workers: 4}, func(_ context.Context, key string) error {
			o, ok := r.in.Get(key)
			if !ok {
				o = &cache.Object[string]{Value: "-"}
			}
			began <- key + " " + o.Value
			<-release
			return nil
		})
		require.ElementsMatch(t, []string{"a/1 v", "a/2 v"}, []string{<-began, <-began})
		for i := range 10 {
			r.put(t, "a/1", fmt.Sprint(i))
			synctest.Wait()
		}
		select {
		case key := <-began:
			require.Fail(t, "a key is reconciled by two workers", key)
		default:
		}
		release <- struct{}{}
		release <- struct{}{}
		require.Equal(t, "a/1 9", <-began)
		release <- struct{}{}
		clienttest.Must(r.client.Delete(t.Context(), "a/1"))
		require.Equal(t, "a/1 -", <-began)
		release <- struct{}{}
		stop()
	})
}

// TestRetries lets a key fail. It is retried ever more slowly, and no other key waits for it.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put(t, "a/bad", "v")
		var fail atomic.Bool
		fail.Store(true)
		var bad, good, most atomic.Int64
		stop := r.run(t, controller.Config[string]{
			InitialBackoff: time.Second, MaxBackoff: 16 * time.Second,
			OnError: func(key string, failures int, err error) {
				assert.Equal(t, "a/bad", key)
				assert.Equal(t, errFailed, err)
				most.Store(int64(failures))
			},
		}, func(_ context.Context, key string) error {
			if key != "a/bad" {
				good.Add(1)
				return nil
			}
			bad.Add(1)
			if fail.Load() {
				return errFailed
			}
			return nil
		})
		time.Sleep(10 * time.Minute)
		require.Equal(t, bad.Load(), most.Load())
		require.InDelta(t, 600/16*5/2, bad.Load(), 600/16*3/2)
		r.put(t, "a/good", "v")
		synctest.Wait()
		require.EqualValues(t, 1, good.Load())
		fail.Store(false)
		time.Sleep(time.Minute)
		before := bad.Load()
		time.Sleep(10 * time.Minute)
		require.Equal(t, before, bad.Load())
		stop()
	})
}

// TestRetriesOfAllKeys lets a thousand keys fail for a minute: the first retries follow at once, and then so many a second.
func TestRetriesOfAllKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 1000 {
			r.put(t, fmt.Sprintf("a/%d", i), "v")
		}
		var calls atomic.Int64
		stop := r.run(t, controller.Config[string]{Workers: 10}, func(context.Context, string) error {
			calls.Add(1)
			return errFailed
		})
		time.Sleep(time.Minute)
		require.InDelta(t, 1000+100+10*60, calls.Load(), 100)
		stop()
	})
}

// TestResync reconciles all again now and then, and a key when it asks for it.
func TestResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put(t, "a/b/1", "v")
		r.put(t, "a/c", "v")
		var mu sync.Mutex
		calls := map[string]int{}
		cfg := controller.Config[string]{Prefix: "a/b/", Resync: time.Minute, Keys: func(ch cache.Change[string]) []string {
			return []string{ch.Key, "other"}
		}}
		stop := r.run(t, cfg, func(_ context.Context, key string) error {
			mu.Lock()
			defer mu.Unlock()
			calls[key]++
			if key == "other" {
				return fmt.Errorf("wrapped: %w", controller.RequeueAfter(10*time.Second))
			}
			return nil
		})
		time.Sleep(20 * time.Minute)
		stop()
		require.NotContains(t, calls, "a/c")
		require.InDelta(t, 21, calls["a/b/1"], 3)
		require.InDelta(t, 120, calls["other"], 25)
	})
}

// TestTheEndOfRun closes the informer, and ends ctx while a call is under way.
func TestTheEndOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put(t, "a/1", "v")
		under, ended := make(chan struct{}), false
		stop := r.run(t, controller.Config[string]{}, func(ctx context.Context, _ string) error {
			close(under)
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = true
			return ctx.Err()
		})
		<-under
		stop()
		require.True(t, ended)
		closed := make(chan error)
		go func() {
			closed <- controller.Run(t.Context(), r.in, controller.Config[string]{}, func(context.Context, string) error { return nil })
		}()
		synctest.Wait()
		r.in.Close()
		require.Equal(t, cache.ErrClosed, <-closed)
	})
}

func TestBadConfig(t *testing.T) {
	for want, cfg := range map[string]controller.Config[string]{
		"Workers is -1": {Workers: -1}, "Workers is 9223372036854775807": {Workers: math.MaxInt}, "Resync is -1ns": {Resync: -1}, "RetriesPerSecond is -1": {RetriesPerSecond: -1},
		"MaxBackoff is -1ns": {MaxBackoff: -1}, "Run needs a function that reconciles": {},
	} {
		require.ErrorContains(t, controller.Run(t.Context(), nil, cfg, nil), want)
	}
}

// TestRetriesThatAreNotUsed lets keys fail for a hundred seconds that change before their retry, or while they are reconciled. Later
// retries come as soon as without these failures.
func TestRetriesThatAreNotUsed(t *testing.T) {
	const keys = 100
	for name, takes := range map[string]time.Duration{"before the retry": 0, "while reconciled": 1500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				var fail atomic.Bool
				fail.Store(true)
				var done atomic.Int64
				cfg := controller.Config[string]{Workers: keys, InitialBackoff: time.Minute}
				stop := r.run(t, cfg, func(context.Context, string) error {
					time.Sleep(takes)
					if fail.Load() {
						return errFailed
					}
					done.Add(1)
					return nil
				})
				for range 100 {
					for i := range keys {
						r.put(t, fmt.Sprintf("a/%d", i), "v")
					}
					time.Sleep(time.Second)
				}
				time.Sleep(2 * time.Second)
				fail.Store(false)
				time.Sleep(5 * time.Minute)
				require.EqualValues(t, keys, done.Load())
				stop()
			})
		})
	}
}

// TestAJoinedRequeue fails if it is joined with another error, however deep, and not if it is joined with none. The variation of the
// Resync would overflow.
func TestAJoinedRequeue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, failed, hour := newRig(t), make(chan string, 3), controller.RequeueAfter(time.Hour)
		results := map[string]error{
			"a/ok": fmt.Errorf("wrapped: %w", errors.Join(hour, nil)),
			"a/1":  errors.Join(errFailed, hour), "a/2": errors.Join(errors.Join(hour, errFailed), nil),
		}
		var calls sync.WaitGroup
		for key := range results {
			r.put(t, key, "v")
			calls.Add(1)
		}
		cfg := controller.Config[string]{Resync: 50 * 365 * 24 * time.Hour, OnError: func(key string, _ int, _ error) { failed <- key }}
		stop := r.run(t, cfg, func(_ context.Context, key string) error {
			calls.Done() // once for each
			return results[key]
		})
		synctest.Wait()
		stop()
		calls.Wait()
		require.Len(t, failed, 2)
		require.ElementsMatch(t, []string{"a/1", "a/2"}, []string{<-failed, <-failed})
	})
}
