package cache_test

import (
	"context"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// TestStatus loads a prefix, silences its watch, and withdraws and grants its permission.
func TestStatus(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		silent := unresponsive(cluster)
		states := make(chan cache.Status, 100)
		c := serve(t, client, cache.Config{ProbeInterval: 10 * time.Second, OnStatus: func(s cache.Status) { states <- s }})
		next := func() cache.Status {
			select {
			case s := <-states:
				return s
			case <-time.After(time.Hour):
				require.Fail(t, "the state does not change")
				return cache.Status{}
			}
		}
		s := next()
		for s.State != cache.InSync {
			require.Contains(t, []cache.State{cache.Loading, cache.Stale}, s.State)
			s = next()
		}
		time.Sleep(time.Hour)
		require.Empty(t, states)
		require.NoError(t, c.Status()[0].Err)

		silent.Store(true)
		clienttest.Put(t, cluster, "b", "v")
		began := time.Now()
		s = next()
		require.Equal(t, cache.Stale, s.State)
		require.WithinRange(t, s.Since, began.Add(-25*time.Second), began.Add(25*time.Second))
		silent.Store(false)
		require.Equal(t, cache.InSync, next().State)

		refusal := cluster.On("Range", func(call *fakeetcd.Call) { call.Answer(nil, errDenied) })
		_, err := c.Get(t.Context(), "a/1")
		require.Equal(t, denied, err)
		for s = next(); s.State != cache.Denied; s = next() {
			require.Equal(t, cache.Loading, s.State)
		}
		require.Error(t, s.Err)
		require.Zero(t, s.Since)
		refusal.Remove()
		for s.State != cache.InSync {
			s = next()
		}
		c.Close()
	})
}

// TestWaitForRevision waits for writes of cached keys and of others, and for one that the store does not have.
func TestWaitForRevision(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		c := serve(t, client, cache.Config{})
		in := clienttest.Must(cache.NewInformer(c, cache.InformerConfig[string]{Decode: decodeString}))
		require.NoError(t, in.WaitForRevision(t.Context(), clienttest.Put(t, cluster, "a/1", "v")))
		o, ok := in.Get("a/1")
		require.True(t, ok)
		require.Equal(t, "v", o.Value)
		other := clienttest.Put(t, cluster, "b", "v")
		require.NoError(t, in.WaitForRevision(t.Context(), other))
		require.NoError(t, c.WaitForRevision(t.Context(), other))
		require.GreaterOrEqual(t, in.Stats().Revision, other)

		ctx := clienttest.Within(t)
		require.Equal(t, context.DeadlineExceeded, c.WaitForRevision(ctx, other+10))
		waited := make(chan error)
		go func() { waited <- in.WaitForRevision(t.Context(), other+1) }()
		synctest.Wait()
		clienttest.Put(t, cluster, "b", "w")
		require.NoError(t, <-waited)
		closing := clienttest.Must(cache.NewInformer(c, cache.InformerConfig[string]{Decode: decodeString}))
		go func() { waited <- closing.WaitForRevision(t.Context(), other+10) }()
		synctest.Wait()
		closing.Close()
		require.Equal(t, cache.ErrClosed, <-waited)
		go func() { waited <- in.WaitForRevision(t.Context(), other+10) }()
		synctest.Wait()
		c.Close()
		require.Equal(t, cache.ErrClosed, <-waited)
		require.Equal(t, cache.ErrClosed, c.WaitForRevision(t.Context(), other+10))
		<-in.Done()
	})
}

// countingContext counts the waits for its end, and ends at the thousandth.
type countingContext struct {
	context.Context
	cancel context.CancelFunc
	waits  atomic.Int64
}

func (c *countingContext) Done() <-chan struct{} {
	if c.waits.Add(1) == 1000 {
		c.cancel()
	}
	return c.Context.Done()
}

// TestWaitForRevisionOfARestoredCluster ends the history while the objects are about to reach the revision. The call then waits until the new
// history reaches it.
func TestWaitForRevisionOfARestoredCluster(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		c := serve(t, client, cache.Config{})
		decoding, release := make(chan struct{}, 100), make(chan struct{})
		in, err := cache.NewInformer(c, cache.InformerConfig[string]{Decode: func(_, value []byte) (string, error) {
			decoding <- struct{}{}
			<-release
			return string(value), nil
		}})
		require.NoError(t, err)
		for range 10 {
			clienttest.Put(t, cluster, "a/1", "v")
			synctest.Wait()
		}
		<-decoding
		ctx := &countingContext{}
		ctx.Context, ctx.cancel = context.WithCancel(t.Context())
		defer ctx.cancel()
		waited := make(chan error, 1)
		go func() { waited <- in.WaitForRevision(ctx, cluster.Revision()) }()
		synctest.Wait()
		become(cluster, restored)
		clienttest.Get(t, c, "a/1")
		time.Sleep(time.Minute)
		synctest.Wait()
		close(release)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, waited)
		require.Less(t, ctx.waits.Load(), int64(100))
		ctx.cancel()
		require.Equal(t, context.Canceled, <-waited)
		c.Close()
	})
}

// TestMetrics compares the metrics with the counters, each of which is one.
func TestMetrics(t *testing.T) {
	_, client := clienttest.StartClient(t, 1)
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
	awaitServing(t, c, "a/")
	all := c.Metrics()
	assert.Len(t, all, reflect.TypeFor[cache.Stats]().NumField()+1, "and the age")
	values := make(map[string]float64)
	for _, m := range all {
		values[m.Name] += m.Value
	}
	s := c.Stats()
	assert.InDelta(t, s.Hits+s.Misses, values["quorate.cache.gets"], 0)
	assert.InDelta(t, s.Loads, values["quorate.cache.loads"], 0)

	in := clienttest.Must(cache.NewInformer(c, cache.InformerConfig[string]{Decode: decodeString}))
	defer in.Close()
	assert.Len(t, in.Metrics(), reflect.TypeFor[cache.InformerStats]().NumField()-1, "without the revision")
}
