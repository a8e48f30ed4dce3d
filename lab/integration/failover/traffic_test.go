//go:build experiment

package failover_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/retry"
)

const (
	// pause is that of a caller between two calls.
	pause = 5 * time.Millisecond
	// deadline of a call, which none should need.
	deadline = 10 * time.Second
)

// traffic is what a program does with a client: gets and puts, beside a watch and a lease.
type traffic struct {
	client  *clientv3.Client
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu         sync.Mutex
	gets, puts []call
}

// call is one that has ended.
type call struct {
	begin, end time.Time
	err        error
}

func (c call) took() time.Duration { return c.end.Sub(c.begin) }

func (c call) String() string { return fmt.Sprintf("after %v: %v", c.took(), c.err) }

// begin starts the traffic and returns when the client uses all members.
func begin(t *testing.T, c *lab.Cluster, w *recorder) *traffic {
	t.Helper()
	tr := startTraffic(t, w.client)
	w.awaitUse(t, c.Members()...)
	return tr
}

// startTraffic returns when the client has seen enough of its cluster to know how long calls take.
func startTraffic(t *testing.T, client *clientv3.Client) *traffic {
	t.Helper()
	tr := &traffic{client: client}
	ctx, cancel := context.WithCancel(context.Background())
	tr.cancel = cancel
	t.Cleanup(tr.halt)
	openWatch(ctx, t, client, "traffic/")
	granted, err := client.Grant(within(t, patience), 60)
	require.NoError(t, err)
	renewals, err := client.KeepAlive(ctx, granted.ID)
	require.NoError(t, err)
	tr.running.Go(func() {
		for range renewals { // until it is closed
			continue
		}
	})
	for i := range callers {
		tr.repeat(ctx, &tr.gets, func(ctx context.Context) error {
			_, err := client.Get(ctx, "traffic/0")
			return err
		})
		tr.repeat(ctx, &tr.puts, func(ctx context.Context) error {
			_, err := client.Put(ctx, fmt.Sprintf("traffic/%d", i), "")
			return err
		})
	}
	require.Eventually(t, func() bool {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		return min(len(tr.gets), len(tr.puts)) >= 100
	}, patience, pollInterval)
	return tr
}

// repeat makes one kind of call, with pauses, until ctx ends; not the call that is under way then.
func (tr *traffic) repeat(ctx context.Context, ended *[]call, do func(context.Context) error) {
	tr.running.Go(func() {
		for ctx.Err() == nil {
			calling, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
			c := call{begin: time.Now()}
			c.err = do(calling)
			c.end = time.Now()
			cancel()
			tr.mu.Lock()
			*ended = append(*ended, c)
			tr.mu.Unlock()
			time.Sleep(pause)
		}
	})
}

// halt ends the callers, after the calls that are under way.
func (tr *traffic) halt() {
	tr.cancel()
	tr.running.Wait()
}

// finish ends the traffic: gets do not fail, and puts fail only if they may have been executed.
func (tr *traffic) finish(t *testing.T) {
	t.Helper()
	tr.halt()
	for _, c := range tr.gets {
		assert.NoError(t, c.err, "get of %v", c)
	}
	for _, c := range tr.failedPuts() {
		assert.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(c.err), "put of %v", c)
	}
}

func (tr *traffic) failedPuts() []call {
	var failed []call
	for _, c := range tr.puts {
		if c.err != nil {
			failed = append(failed, c)
		}
	}
	return failed
}

// slowest returns the longest time that a call took, whatever its outcome.
func slowest(calls []call) time.Duration {
	var longest time.Duration
	for _, c := range calls {
		longest = max(longest, c.took())
	}
	return longest
}

// openWatch returns the revisions that a watch delivers. It is created when openWatch returns.
func openWatch(ctx context.Context, t *testing.T, client *clientv3.Client, prefix string) (delivered <-chan int64) {
	t.Helper()
	responses := client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	select {
	case resp := <-responses:
		require.True(t, resp.Created, "%v", resp.Err())
	case <-time.After(patience):
		require.Fail(t, "the watch is not created")
	}
	revisions := make(chan int64, 100_000)
	go func() {
		defer close(revisions)
		for resp := range responses {
			for _, e := range resp.Events {
				select {
				case revisions <- e.Kv.ModRevision:
				default: // a test that reads none
				}
			}
		}
	}()
	return revisions
}
