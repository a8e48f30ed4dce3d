package verify

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testTimeout = 5 * time.Minute

func requireNothingLeft(t *testing.T, client *clientv3.Client) {
	t.Helper()
	all, err := client.Get(t.Context(), "", clientv3.WithPrefix())
	require.NoError(t, err)
	assert.Empty(t, all.Kvs)
	require.Eventually(t, func() bool { // a member lists the leases that it knows: it may not have applied the end of one yet
		leases, err := client.Leases(t.Context())
		return err == nil && len(leases.Leases) == 0
	}, testTimeout, 10*time.Millisecond, "a lease is left")
}

func TestVerify(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Config{Members: 3})
	cluster, client := etcd.Lab, etcd.Client
	cfg := Config{Client: client, Prefix: DefaultPrefix, Duration: 3 * time.Second, Rate: 200, Timeout: testTimeout, Grace: testTimeout}
	requireGood := func(ctx context.Context, t *testing.T) Result {
		t.Helper()
		result, err := Run(ctx, cfg)
		require.NoError(t, err)
		assert.True(t, result.OK(), result.Text())
		return result
	}

	t.Run("healthy", func(t *testing.T) {
		result := requireGood(t.Context(), t)
		assert.Positive(t, result.Answered)
		assert.EqualValues(t, 2, result.Watches)
		assert.Positive(t, result.Events)
		var page bytes.Buffer
		require.NoError(t, result.Page(&page))
		assert.Contains(t, page.String(), "<html")
		requireNothingLeft(t, client)
	})
	t.Run("a leader is killed", func(t *testing.T) {
		leader, err := cluster.Leader(t.Context())
		require.NoError(t, err)
		killed := make(chan error, 1)
		watch := client.Watch(t.Context(), DefaultPrefix, clientv3.WithPrefix())
		go func() {
			<-watch // the load has begun
			killed <- leader.Kill()
		}()
		requireGood(t.Context(), t)
		require.NoError(t, <-killed)
		require.NoError(t, leader.Restart(t.Context()))
		require.NoError(t, cluster.WaitReady(t.Context()))
		requireNothingLeft(t, client)
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		watch := client.Watch(t.Context(), DefaultPrefix, clientv3.WithPrefix())
		go func() {
			<-watch // the load has begun
			cancel()
		}()
		requireGood(ctx, t)
		requireNothingLeft(t, client)
	})
	t.Run("interrupted before it begins", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := Run(ctx, cfg)
		require.ErrorIs(t, err, context.Canceled)
		requireNothingLeft(t, client)
	})
}

// fabricating answers reads with what was never written.
type fabricating struct{ clientv3.KV }

func (f fabricating) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	resp, err := f.KV.Do(ctx, op)
	if get := resp.Get(); get != nil && len(get.Kvs) > 0 {
		get.Kvs[0].Value = []byte("never written")
	}
	return resp, err
}

func TestWrongAnswersAreFound(t *testing.T) {
	client := etcdtest.Start(t, etcdtest.Config{Members: 3}).Client
	client.KV = fabricating{client.KV}
	result, err := Run(t.Context(), Config{Client: client, Prefix: DefaultPrefix, Duration: 2 * time.Second, Rate: 200, Timeout: testTimeout})
	require.NoError(t, err)
	assert.False(t, result.OK())
	assert.Equal(t, "violated", result.Linear)
	assert.NotEmpty(t, result.Violations)
	assert.Contains(t, result.Text(), "VIOLATION: keys quorate-verify/")
	var page bytes.Buffer
	require.NoError(t, result.Page(&page))
	requireNothingLeft(t, client)
}

// late is a Watcher whose first watches deliver nothing.
type late struct {
	clientv3.Watcher
	watches atomic.Int32
}

func (l *late) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	if l.watches.Add(-1) < 0 {
		return l.Watcher.Watch(ctx, key, opts...)
	}
	watch := make(chan clientv3.WatchResponse)
	context.AfterFunc(ctx, func() { close(watch) })
	return watch
}

// A watch that is late has lost nothing yet: that cannot be found out.
func TestALateWatchIsNoViolation(t *testing.T) {
	client := etcdtest.Start(t, etcdtest.Config{Members: 1}).Client
	watcher := &late{Watcher: client.Watcher}
	watcher.watches.Store(2)
	client.Watcher = watcher
	result, err := Run(t.Context(), Config{Client: client, Prefix: DefaultPrefix, Duration: time.Second, Rate: 20, Timeout: 5 * time.Second})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Empty(t, result.Violations)
}
