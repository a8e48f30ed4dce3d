//go:build experiment

package failover_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
)

// watch is one watch, from its beginning to its end, with all that it delivered.
type watch struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	events []event
	err    error // with which it ended
}

type event struct {
	at       time.Time
	key      string
	revision int64
}

// openWatch returns a watch that stands.
func openWatch(t *testing.T, client *clientv3.Client, prefix string) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	responses := client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	select {
	case resp := <-responses:
		require.True(t, resp.Created, "%v", resp.Err())
	case <-time.After(patience):
		require.Fail(t, "the watch does not stand")
	}
	w := &watch{cancel: cancel, done: make(chan struct{})}
	go w.read(responses)
	return w
}

func (w *watch) read(responses clientv3.WatchChan) {
	defer close(w.done)
	for resp := range responses {
		now := time.Now()
		w.mu.Lock()
		for _, e := range resp.Events {
			w.events = append(w.events, event{now, string(e.Kv.Key), e.Kv.ModRevision})
		}
		w.err = resp.Err()
		w.mu.Unlock()
	}
}

// delivered returns the events so far.
func (w *watch) delivered() []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// nextAfter returns when the first event after a moment was delivered.
func (w *watch) nextAfter(at time.Time) (time.Time, bool) {
	for _, e := range w.delivered() {
		if e.at.After(at) {
			return e.at, true
		}
	}
	return time.Time{}, false
}

// finish waits until the watch has delivered all puts that were acknowledged, ends it, and
// checks that it delivered each put once, in order, and nothing else.
func (w *watch) finish(t *testing.T, puts []call) {
	t.Helper()
	revisions, acknowledged := map[string]int64{}, int64(0)
	for _, c := range puts {
		revisions[c.key] = c.revision // 0 if it failed
		acknowledged = max(acknowledged, c.revision)
	}
	assert.Eventually(t, func() bool {
		events := w.delivered()
		return len(events) > 0 && events[len(events)-1].revision >= acknowledged
	}, patience, pollInterval, "the watch has not delivered the last put")
	w.cancel()
	<-w.done
	assert.NoError(t, w.err)

	seen, last := map[string]bool{}, int64(0)
	for _, e := range w.events {
		assert.Greater(t, e.revision, last, "events come in order, and once")
		last = e.revision
		revision, issued := revisions[e.key]
		assert.True(t, issued, "%s was never put", e.key)
		if revision != 0 {
			assert.Equal(t, revision, e.revision)
		}
		seen[e.key] = true
	}
	for _, c := range puts {
		if c.err == nil {
			assert.True(t, seen[c.key], "%s was put at revision %d and never delivered", c.key, c.revision)
		}
	}
}
