package store_test

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	. "github.com/quorate/quorate/clientv3/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Config is what the tests store as JSON.
type Config struct{ Replicas int }

var asJSON = JSON[Config]()

// inBubble runs a test in virtual time, with a Store of "configs/" over a client.
func inBubble(t *testing.T, test func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, s *Store[Config])) {
	t.Helper()
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		test(t, cluster, client, New(client, "configs/", asJSON))
	})
}

func increment(c Config) (Config, error) { return Config{c.Replicas + 1}, nil }

// follower takes what a Watch yields, one by one.
type follower struct {
	t    *testing.T
	next func() (Change[Config], error, bool)
}

func follow(ctx context.Context, t *testing.T, s *Store[Config], opts ...clientv3.OpOption) follower {
	t.Helper()
	next, stop := iter.Pull2(s.Watch(ctx, opts...))
	t.Cleanup(stop)
	return follower{t, next}
}

// change takes the next change, put, deleted and synced one of their kind.
func (f follower) change() Change[Config] {
	f.t.Helper()
	c, err, ok := f.next()
	require.True(f.t, ok)
	require.NoError(f.t, err)
	return c
}

func (f follower) put(key string, replicas int) {
	f.t.Helper()
	c := f.change()
	assert.Equal(f.t, Put, c.Type, "%v", c)
	assert.Equal(f.t, key, c.Key)
	assert.Equal(f.t, Config{replicas}, c.Value)
}

func (f follower) deleted(key string) {
	f.t.Helper()
	c := f.change()
	assert.Equal(f.t, Deleted, c.Type, "%v", c)
	assert.Equal(f.t, key, c.Key)
	assert.NotZero(f.t, c.ModRevision)
}

func (f follower) synced() {
	f.t.Helper()
	assert.Equal(f.t, Change[Config]{Type: Synced}, f.change())
}

// failed takes an error, and the change that comes with it.
func (f follower) failed() (c Change[Config], err error) {
	f.t.Helper()
	c, err, ok := f.next()
	require.True(f.t, ok)
	require.Error(f.t, err)
	return c, err
}

func (f follower) ended() {
	f.t.Helper()
	_, _, ok := f.next()
	require.False(f.t, ok, "an error is the last")
}
