package resolver_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/naming/resolver"
)

// Channels of one builder share the source of a service.
func TestSecondChannelDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, _ := clienttest.StartPair(t)
		register(t, client, "svc", map[string]string{"a": "1", "b": "2"})
		b := newBuilder(t, client, resolver.Config{})
		first, r1 := open(t, b, "etcd:///svc")
		require.Len(t, first.state(t), 2)
		lists := cluster.Count("Range")
		cluster.Member(0).Stop()
		time.Sleep(5 * time.Second)

		began := time.Now()
		second, r2 := open(t, b, "etcd:///svc")
		require.Len(t, second.state(t), 2)
		require.Zero(t, time.Since(began), "it shares the list of the first")
		require.Equal(t, lists, cluster.Count("Range"))

		began = time.Now()
		r1.Close()
		r2.Close()
		require.Zero(t, time.Since(began), "etcd is not waited for")
		third, r3 := open(t, b, "etcd:///svc")
		defer r3.Close()
		require.Len(t, third.state(t), 2)
		require.LessOrEqual(t, time.Since(began), 300*time.Millisecond, "the builder has kept the last list")
		require.ErrorContains(t, third.failure(t), "etcd has not answered yet; the last list, of 2, stays in use")
		cluster.Member(0).Start()
		time.Sleep(10 * time.Second)
		require.Empty(t, third.states, "the list was valid")
	})
}

// A channel that leaves idle mode when all registrations are gone keeps the last list for a while,
// but not when there are other registrations.
func TestMassRemovalWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client, other := clienttest.StartPair(t)
		register(t, client, "svc", map[string]string{"a": "1", "b": "2", "d": "4"})
		b := newBuilder(t, client, resolver.Config{})
		c, r := open(t, b, "etcd:///svc")
		c.state(t)
		r.Close()
		register(t, other, "svc", map[string]string{"a": "", "b": "", "d": ""})
		c, r = open(t, b, "etcd:///svc")
		defer r.Close()
		require.Equal(t, []string{"1", "2", "4"}, c.state(t))
		require.ErrorContains(t, c.failure(t), "3 of 3 endpoints are gone at once, and stay in use for 15s")
		began := time.Now()
		register(t, other, "svc", map[string]string{"d": "4"})
		require.Equal(t, []string{"4"}, c.state(t), "the list may have changed completely")
		require.Zero(t, time.Since(began).Truncate(time.Second))
	})
}

// A list of the builder expires after an hour.
func TestLastListExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, _ := clienttest.StartPair(t)
		register(t, client, "svc", map[string]string{"a": "1"})
		b := newBuilder(t, client, resolver.Config{})
		c, r := open(t, b, "etcd:///svc")
		require.Len(t, c.state(t), 1)
		r.Close()
		cluster.Member(0).Stop()
		time.Sleep(time.Hour)
		c, r = open(t, b, "etcd:///svc")
		require.ErrorContains(t, c.failure(t), "etcd cannot be reached")
		require.Empty(t, c.states)
		began := time.Now()
		r.Close()
		require.Zero(t, time.Since(began))
	})
}

// All registrations expire at once: their processes are partitioned from etcd, but not from
// callers.
func TestMassRemovalIsDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, other := clienttest.StartPair(t)
		register(t, client, "svc", map[string]string{"a": "1", "b": "2", "c": "3"})
		c := resolve(t, client, resolver.Config{}, "etcd:///svc")
		require.Len(t, c.state(t), 3)
		synctest.Wait()
		began := time.Now()
		register(t, other, "svc", map[string]string{"a": "", "b": "", "c": ""})
		require.ErrorContains(t, c.failure(t), "3 of 3 endpoints are gone at once, and stay in use for 15s")
		require.Empty(t, c.state(t))
		assert.Equal(t, 15*time.Second, time.Since(began).Truncate(time.Second))
		require.ErrorContains(t, c.failure(t), "no endpoint is registered")

		register(t, other, "svc", map[string]string{"a": "1", "b": "2", "c": "3"})
		require.NotEmpty(t, c.state(t), "new endpoints are used at once")
		time.Sleep(time.Minute)
		for len(c.states) > 0 {
			c.state(t)
		}
		began = time.Now()
		register(t, other, "svc", map[string]string{"a": ""})
		require.Equal(t, []string{"2", "3"}, c.state(t))
		assert.Less(t, time.Since(began), time.Second, "one of three is not a mass removal")

		time.Sleep(time.Minute)
		register(t, other, "svc", map[string]string{"b": "", "c": ""})
		require.ErrorContains(t, c.failure(t), "2 of 2 endpoints are gone at once")
		cluster.Member(0).Stop()
		time.Sleep(time.Minute)
		require.Empty(t, c.states, "the time of an outage does not count")
		cluster.Member(0).Start()
		require.Empty(t, c.state(t))
	})
}
