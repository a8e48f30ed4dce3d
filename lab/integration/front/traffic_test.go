package front_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/retry"
)

const (
	callers   = 4
	callPause = 2 * time.Millisecond
	deadline  = 20 * time.Second // of a call, which none should need
)

// put is a put that has ended.
type put struct {
	key      string
	revision int64 // 0 if it failed
	err      error
}

// traffic is what a program does with a client: gets and puts, a watch of what is put, and
// a lease.
type traffic struct {
	client *clientv3.Client
	stop   context.CancelFunc // of the callers

	running, watching sync.WaitGroup
	endWatch          context.CancelFunc
	monitor           clientv3.LeaseMonitor
	lease             clientv3.LeaseID
	succeeded         atomic.Int64

	mu        sync.Mutex
	puts      []put
	failed    []error // gets
	delivered []*clientv3.Event
	watchErr  error
}

const prefix = "traffic/"

// ttl is that of leases, in seconds: on a busy machine nginx may take all members for down, more than once. longTTL
// outlives a leader that is frozen: when it wakes it can revoke what ran out by its clock, for others renewed it:
// https://github.com/etcd-io/etcd/issues/15247.
const ttl, longTTL = 30, 60

// begin starts the traffic, and returns when its watch and its lease exist.
func begin(t *testing.T, client *clientv3.Client, ttl int64) *traffic {
	t.Helper()
	calling, stop := context.WithCancel(context.Background())
	ctx, endWatch := context.WithCancel(context.Background())
	tr := &traffic{client: client, stop: stop, endWatch: endWatch}
	t.Cleanup(tr.halt)
	tr.watch(ctx, t)
	tr.keepLease(ctx, t, ttl)
	for i := range callers {
		tr.running.Go(func() { repeat(calling, func(n int) { tr.put(fmt.Sprintf("%s%d/%d", prefix, i, n)) }) })
		tr.running.Go(func() { repeat(calling, func(int) { tr.get() }) })
	}
	return tr
}

func (tr *traffic) watch(ctx context.Context, t *testing.T) {
	t.Helper()
	responses := tr.client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	select {
	case resp := <-responses:
		require.True(t, resp.Created, "%v", resp.Err())
	case <-time.After(testTimeout):
		require.Fail(t, "the watch is not created")
	}
	tr.watching.Go(func() {
		for resp := range responses {
			tr.mu.Lock()
			tr.delivered = append(tr.delivered, resp.Events...)
			tr.watchErr = resp.Err()
			tr.mu.Unlock()
		}
	})
}

// putUntilKnown puts a key, and again while the outcome is unknown.
func putUntilKnown(t *testing.T, client *clientv3.Client, key, value string, opts ...clientv3.OpOption) {
	t.Helper()
	ctx := within(t, testTimeout)
	labtest.UntilKnown(ctx, t, func() error { _, err := client.Put(ctx, key, value, opts...); return err })
}

func (tr *traffic) keepLease(ctx context.Context, t *testing.T, ttl int64) {
	t.Helper()
	granted, err := tr.client.Grant(within(t, testTimeout), ttl)
	require.NoError(t, err)
	tr.lease = granted.ID
	putUntilKnown(t, tr.client, "lease", "", clientv3.WithLease(tr.lease))
	renewals, err := tr.client.KeepAlive(clientv3.WithLeaseMonitor(ctx, &tr.monitor), tr.lease)
	require.NoError(t, err)
	tr.watching.Go(func() {
		for range renewals { // until it is closed
			continue
		}
	})
}

func repeat(ctx context.Context, call func(n int)) {
	for n := 0; pause.For(ctx, callPause) == nil; n++ {
		call(n)
	}
}

func (tr *traffic) put(key string) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	p := put{key: key}
	resp, err := tr.client.Put(ctx, key, key)
	if p.err = err; err == nil {
		p.revision = resp.Header.Revision
		tr.succeeded.Add(1)
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.puts = append(tr.puts, p)
}

func (tr *traffic) get() {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if _, err := tr.client.Get(ctx, "lease"); err != nil {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.failed = append(tr.failed, err)
	}
}

// awaitPuts returns when so many puts more have succeeded, and the watch has delivered them.
func (tr *traffic) awaitPuts(t *testing.T, more int64) {
	t.Helper()
	enough := tr.succeeded.Load() + more
	require.Eventually(t, func() bool { return tr.succeeded.Load() >= enough }, testTimeout, pollInterval, "puts do not succeed")
	tr.awaitDelivery(t)
}

// awaitDelivery returns when the watch has delivered all puts that had succeeded before.
func (tr *traffic) awaitDelivery(t *testing.T) {
	t.Helper()
	tr.mu.Lock()
	var revision int64
	for _, p := range tr.puts {
		revision = max(revision, p.revision)
	}
	tr.mu.Unlock()
	require.Eventually(t, func() bool {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		return len(tr.delivered) > 0 && tr.delivered[len(tr.delivered)-1].Kv.ModRevision >= revision
	}, testTimeout, pollInterval, "the watch does not deliver")
}

// putErrors returns the errors of the puts that have failed so far.
func (tr *traffic) putErrors() []error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var errs []error
	for _, p := range tr.puts {
		if p.err != nil {
			errs = append(errs, p.err)
		}
	}
	return errs
}

// stopCallers ends the callers, after the calls that are under way.
func (tr *traffic) stopCallers() {
	tr.stop()
	tr.running.Wait()
}

func (tr *traffic) halt() {
	tr.stopCallers()
	tr.endWatch()
	tr.watching.Wait()
}

// finish ends the traffic and checks what holds whatever happened: gets do not fail, puts
// fail only if they may have been executed, the watch delivers each put once and in order,
// and the lease is renewed.
func (tr *traffic) finish(t *testing.T) {
	t.Helper()
	tr.awaitPuts(t, callers)
	tr.stopCallers()
	tr.awaitDelivery(t)
	now := time.Now()
	assert.Eventually(t, func() bool { return tr.monitor.LastRenewal().After(now) }, testTimeout, pollInterval, "the lease is renewed")
	assert.NoError(t, tr.monitor.Err())
	tr.halt()
	assert.Empty(t, tr.failed, "gets")
	assert.NoError(t, tr.watchErr)
	revisions, seen := map[string]int64{}, map[string]bool{}
	for _, p := range tr.puts {
		revisions[p.key] = p.revision
		if p.err != nil {
			assert.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(p.err), "put: %v", p.err)
		}
	}
	last := int64(0)
	for _, e := range tr.delivered {
		assert.Greater(t, e.Kv.ModRevision, last, "events come in order, and once")
		last = e.Kv.ModRevision
		assert.Equal(t, int64(1), e.Kv.Version, "%s was put twice", e.Kv.Key)
		if revision := revisions[string(e.Kv.Key)]; revision != 0 {
			assert.Equal(t, revision, e.Kv.ModRevision)
		}
		seen[string(e.Kv.Key)] = true
	}
	for _, p := range tr.puts {
		assert.True(t, p.err != nil || seen[p.key], "%s was put at revision %d and not delivered", p.key, p.revision)
	}
}
