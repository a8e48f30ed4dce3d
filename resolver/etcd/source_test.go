package etcd_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/resolver/etcd"
)

// Channels of one builder share the source of a service.
func TestSecondChannelDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, _ := start(t)
		register(t, client, "svc", map[string]string{"a": "1", "b": "2"})
		b, err := etcd.NewBuilder(client, etcd.Config{})
		require.NoError(t, err)
		build := func(c *channel) gresolver.Resolver {
			r, err := b.Build(parse(t, "etcd:///svc"), c, gresolver.BuildOptions{})
			require.NoError(t, err)
			return r
		}
		first, second, third := newChannel(), newChannel(), newChannel()
		r1 := build(first)
		require.Len(t, first.state(t), 2)
		lists := cluster.Count("Range")
		cluster.Member(0).Stop()
		time.Sleep(5 * time.Second)

		began := time.Now()
		r2 := build(second)
		require.Len(t, second.state(t), 2)
		require.Zero(t, time.Since(began), "it shares the list of the first")
		require.Equal(t, lists, cluster.Count("Range"))

		r1.Close()
		r2.Close()
		began = time.Now()
		r3 := build(third)
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
		_, client, other := start(t)
		register(t, client, "svc", map[string]string{"a": "1", "b": "2"})
		b, err := etcd.NewBuilder(client, etcd.Config{})
		require.NoError(t, err)
		nap := func(registered map[string]string) *channel {
			c := newChannel()
			r, err := b.Build(parse(t, "etcd:///svc"), c, gresolver.BuildOptions{})
			require.NoError(t, err)
			c.state(t)
			r.Close()
			register(t, other, "svc", registered)
			c = newChannel()
			r, err = b.Build(parse(t, "etcd:///svc"), c, gresolver.BuildOptions{})
			require.NoError(t, err)
			t.Cleanup(r.Close)
			return c
		}
		c := nap(map[string]string{"a": "", "b": ""})
		require.Equal(t, []string{"1", "2"}, c.state(t))
		require.ErrorContains(t, c.failure(t), "2 of 2 endpoints are gone at once, and stay in use for 15s")
		began := time.Now()
		register(t, other, "svc", map[string]string{"c": "3"})
		require.Equal(t, []string{"3"}, c.state(t), "the list may have changed completely")
		require.Zero(t, time.Since(began).Truncate(time.Second))
	})
}

// A list of the builder expires after an hour.
func TestLastListExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, _ := start(t)
		register(t, client, "svc", map[string]string{"a": "1"})
		b, err := etcd.NewBuilder(client, etcd.Config{})
		require.NoError(t, err)
		c := newChannel()
		r, err := b.Build(parse(t, "etcd:///svc"), c, gresolver.BuildOptions{})
		require.NoError(t, err)
		require.Len(t, c.state(t), 1)
		r.Close()
		cluster.Member(0).Stop()
		time.Sleep(time.Hour)
		r, err = b.Build(parse(t, "etcd:///svc"), c, gresolver.BuildOptions{})
		require.NoError(t, err)
		defer r.Close()
		require.ErrorContains(t, c.failure(t), "etcd cannot be reached")
		require.Empty(t, c.states)
	})
}

// All registrations expire at once: their processes are partitioned from etcd, but not from
// callers.
func TestMassRemovalIsDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client, other := start(t)
		register(t, client, "svc", map[string]string{"a": "1", "b": "2", "c": "3"})
		c := newChannel()
		resolveWith(t, client, etcd.Config{}, "etcd:///svc", c)
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
	})
}

// Many servers register under a hundred channels: the channels receive few lists, and the last one
// is complete.
func TestStormOfRegistrations(t *testing.T) {
	const servers, channels = 2000, 100
	cluster, client, _ := start(t)
	b, err := etcd.NewBuilder(client, unhurried)
	require.NoError(t, err)
	all := make([]*channel, channels)
	for i := range all {
		all[i] = newChannel()
		r, err := b.Build(parse(t, "etcd:///svc"), all[i], gresolver.BuildOptions{})
		require.NoError(t, err)
		defer r.Close()
	}
	require.NoError(t, cluster.Wait(within(t), "Watch", 1))
	for i := range servers {
		_, err := cluster.Put(fmt.Sprintf("svc/%d", i), fmt.Sprintf(`{"Addr":"10.0.%d.%d:1"}`, i/256, i%256))
		require.NoError(t, err)
	}
	for _, c := range all {
		lists := 0
		for len(c.state(t)) < servers {
			lists++
		}
		assert.Less(t, lists, servers/4)
	}
}
