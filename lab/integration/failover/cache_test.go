//go:build experiment

package failover_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// acknowledged knows when which revision was acknowledged.
type acknowledged struct {
	mu   sync.Mutex
	acks []ack // in the order of both
}

type ack struct {
	at  time.Time
	rev int64
}

func (a *acknowledged) add(rev int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.acks); n == 0 || a.acks[n-1].rev < rev {
		a.acks = append(a.acks, ack{time.Now(), rev})
	}
}

// by returns the highest revision that was acknowledged by then.
func (a *acknowledged) by(then time.Time) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var rev int64
	for _, k := range a.acks {
		if k.at.After(then) {
			break
		}
		rev = k.rev
	}
	return rev
}

const (
	// testTime is how long there are faults at least. On a machine that is short of CPU there are until each way to read
	// was answered, and some from memory, for mostTime at most.
	testTime    = 8 * time.Second
	mostTime    = 2 * time.Minute
	faultTime   = 400 * time.Millisecond
	staleness   = 150 * time.Millisecond
	callTimeout = 5 * time.Second
)

// bounds are the ways to read, with the moment by which everything acknowledged must be in the answer.
var bounds = map[string]func(ctx context.Context, a *acknowledged) (bounded context.Context, by time.Time){
	"linearizable": func(ctx context.Context, _ *acknowledged) (context.Context, time.Time) { return ctx, time.Now() },
	"max staleness": func(ctx context.Context, _ *acknowledged) (context.Context, time.Time) {
		return cache.WithMaxStaleness(ctx, staleness), time.Now().Add(-staleness)
	},
	"not older than": func(ctx context.Context, a *acknowledged) (context.Context, time.Time) {
		now := time.Now()
		return cache.NotOlderThan(ctx, a.by(now)), now
	},
}

// TestBoundsHold reads in every way, what is cached and what is not, while followers are stopped and cut off. No answer is older
// than its bound.
func TestBoundsHold(t *testing.T) {
	cluster := labtest.Start(t, lab.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), mostTime)
	defer cancel()
	var acks acknowledged
	var running sync.WaitGroup
	writes := labtest.Client(t, clientv3.Config{Endpoints: cluster.Endpoints()})
	running.Go(func() { write(ctx, writes, &acks) })
	client := labtest.Client(t, clientv3.Config{Endpoints: cluster.Endpoints()})
	c, err := cache.New(client, cache.Config{Prefixes: []string{"in/"}, ProbeInterval: time.Second})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.NoError(t, c.WaitSynced(ctx))
	answers := map[string]*atomic.Int64{}
	for name, bound := range bounds {
		for _, key := range []string{"in/k", "out/k"} {
			n := new(atomic.Int64)
			answers[name+" "+key] = n
			running.Go(func() {
				for ctx.Err() == nil {
					if read(t, ctx, c, &acks, bound, name, key) {
						n.Add(1)
					}
				}
			})
		}
	}
	began := time.Now()
	for time.Since(began) < testTime || !allAnswered(answers, c) {
		if !disturb(t, ctx, cluster) {
			break
		}
	}
	cancel()
	running.Wait()
	for name, n := range answers {
		assert.Positive(t, n.Load(), name)
	}
	s := c.Stats()
	require.Positive(t, s.Hits)
	t.Logf("%d writes, %+v", len(acks.acks), s)
}

// allAnswered reports whether each way to read was, and some read from memory.
func allAnswered(answers map[string]*atomic.Int64, c *cache.Cache) bool {
	for _, n := range answers {
		if n.Load() == 0 {
			return false
		}
	}
	return c.Stats().Hits > 0
}

// write writes keys of both kinds.
func write(ctx context.Context, c *clientv3.Client, acks *acknowledged) {
	for i := 0; ctx.Err() == nil; i++ {
		resp, err := c.Put(ctx, []string{"in/k", "out/k"}[i%2], fmt.Sprint(i))
		if err == nil {
			acks.add(resp.Header.Revision)
		}
	}
}

// read checks one answer, and reports whether there was one.
func read(t *testing.T, ctx context.Context, c *cache.Cache, acks *acknowledged,
	bound func(context.Context, *acknowledged) (context.Context, time.Time), name, key string,
) bool {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ctx, by := bound(ctx, acks)
	least := acks.by(by)
	resp, err := c.Get(ctx, key)
	if err != nil {
		return false
	}
	assert.GreaterOrEqual(t, resp.Header.Revision, least, "%s %s", name, key)
	return true
}

// disturb stops a follower, and then cuts one off. It returns false if ctx has ended.
func disturb(t *testing.T, ctx context.Context, cluster *lab.Cluster) bool {
	t.Helper()
	for _, begin := range []func(*lab.Member) (end func()){
		func(m *lab.Member) (end func()) {
			require.NoError(t, m.Stop())
			return func() { require.NoError(t, m.Continue()) }
		},
		func(m *lab.Member) (end func()) {
			cluster.Isolate(m)
			return cluster.Heal
		},
	} {
		leader, err := cluster.Leader(ctx)
		if err != nil {
			return false
		}
		end := begin(cluster.Members()[(leader.Index()+1+rand.IntN(2))%3])
		time.Sleep(faultTime)
		end()
	}
	return true
}
