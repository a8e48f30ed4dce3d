//go:build experiment

package failover_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/retry"
)

const (
	// callers of each kind, and the pause between two calls of one.
	callers = 4
	pause   = 5 * time.Millisecond
	// deadline of a call, which none should need.
	deadline = 10 * time.Second
)

var prefixes atomic.Int64

// traffic is what a program does with a client: gets and puts, a watch of what is put, and
// a lease.
type traffic struct {
	client *clientv3.Client
	prefix string
	watch  *watch
	lease  *lease

	stop    chan struct{}
	running sync.WaitGroup
	latest  atomic.Pointer[call] // put that was acknowledged

	mu         sync.Mutex
	gets, puts []call
}

// call is one that has ended.
type call struct {
	begin, end time.Time
	key        string
	revision   int64
	err        error
}

func (c call) took() time.Duration { return c.end.Sub(c.begin) }

func (c call) String() string { return fmt.Sprintf("%s after %v: %v", c.key, c.took(), c.err) }

// begin starts the traffic, with a watch and a lease that stand, and returns when the
// client uses all members.
func begin(t *testing.T, c *lab.Cluster, w *recorder, ttl int64) *traffic {
	t.Helper()
	tr := newTraffic(w.client)
	tr.watch = openWatch(t, w.client, tr.prefix)
	tr.lease = keepLease(t, w.client, ttl)
	tr.call(t)
	w.awaitUse(t, c.Members()...)
	return tr
}

func newTraffic(client *clientv3.Client) *traffic {
	return &traffic{client: client, prefix: fmt.Sprintf("traffic/%d/", prefixes.Add(1)), stop: make(chan struct{})}
}

// call starts the callers, and returns when the client has seen enough of its cluster to
// know how long calls take.
func (tr *traffic) call(t *testing.T) {
	t.Helper()
	t.Cleanup(tr.halt)
	for i := range callers {
		tr.running.Go(func() {
			tr.repeat(func(int) bool {
				tr.get()
				return true
			})
		})
		tr.running.Go(func() {
			tr.repeat(func(n int) bool {
				tr.put(fmt.Sprintf("%s%d/%d", tr.prefix, i, n))
				return true
			})
		})
	}
	require.Eventually(t, func() bool {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		return min(len(tr.gets), len(tr.puts)) >= 100
	}, patience, pollInterval)
}

// repeat does something, with pauses, for as long as it returns true and the traffic is not
// halted.
func (tr *traffic) repeat(do func(n int) bool) {
	for n := 0; ; n++ {
		select {
		case <-tr.stop:
			return
		case <-time.After(pause):
			if !do(n) {
				return
			}
		}
	}
}

// get reads what was put last, or something else before the first put, and reports whether
// that succeeded.
func (tr *traffic) get() bool {
	c := call{key: tr.prefix + "none"}
	latest := tr.latest.Load()
	if latest != nil {
		c.key = latest.key
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	c.begin = time.Now()
	resp, err := tr.client.Get(ctx, c.key)
	c.end, c.err = time.Now(), err
	if err == nil && latest != nil && (len(resp.Kvs) != 1 || resp.Kvs[0].ModRevision != latest.revision) {
		c.err = fmt.Errorf("stale read at revision %d of what was put at %d", resp.Header.Revision, latest.revision)
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.gets = append(tr.gets, c)
	return c.err == nil
}

func (tr *traffic) put(key string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	c := call{begin: time.Now(), key: key}
	resp, err := tr.client.Put(ctx, key, key)
	c.end, c.err = time.Now(), err
	if err == nil {
		c.revision = resp.Header.Revision
		tr.latest.Store(&c)
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.puts = append(tr.puts, c)
	return err == nil
}

// halt ends the callers, after the calls that are under way.
func (tr *traffic) halt() {
	select {
	case <-tr.stop:
	default:
		close(tr.stop)
	}
	tr.running.Wait()
}

// finish ends the traffic and checks what holds whatever happened, and that the lease lives.
func (tr *traffic) finish(t *testing.T) {
	t.Helper()
	tr.finishCalls(t)
	tr.lease.finish(t)
}

// finishCalls ends the traffic and checks what holds whatever happened: gets do not fail and
// are not stale, puts fail only if they may have been executed, and the watch delivers each
// put once and in order.
func (tr *traffic) finishCalls(t *testing.T) {
	t.Helper()
	tr.halt()
	for _, c := range tr.gets {
		assert.NoError(t, c.err, "get of %v", c)
	}
	for _, c := range tr.failedPuts() {
		assert.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(c.err), "put of %v", c)
	}
	tr.watch.finish(t, tr.puts)
}

func (tr *traffic) failedPuts() []call {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var failed []call
	for _, c := range tr.puts {
		if c.err != nil {
			failed = append(failed, c)
		}
	}
	return failed
}

// between returns those of calls that began in a stretch of time.
func between(calls []call, from, to time.Time) []call {
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.begin.Before(from) || c.begin.After(to) })
}

// slowest returns the longest time that a call took, whatever its outcome.
func slowest(calls []call) time.Duration {
	var longest time.Duration
	for _, c := range calls {
		longest = max(longest, c.took())
	}
	return longest
}

// longestGap returns the longest time between from and to in which no call succeeded.
func longestGap(calls []call, from, to time.Time) time.Duration {
	ends := []time.Time{from, to}
	for _, c := range calls {
		if c.err == nil && c.end.After(from) && c.end.Before(to) {
			ends = append(ends, c.end)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	var longest time.Duration
	for i := range len(ends) - 1 {
		longest = max(longest, ends[i+1].Sub(ends[i]))
	}
	return longest
}

// a few calls are enough, where others keep the machine busy.
const enough = 5 * callers

// awaitCalls waits until there were enough calls that began after a moment.
func (tr *traffic) awaitCalls(t *testing.T, from time.Time) {
	t.Helper()
	require.Eventually(t, func() bool {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		now := time.Now()
		return min(len(between(tr.gets, from, now)), len(between(tr.puts, from, now))) > enough
	}, patience, pollInterval)
}

func requireTraffic(t *testing.T, calls []call) {
	t.Helper()
	require.Greater(t, len(calls), enough)
}
