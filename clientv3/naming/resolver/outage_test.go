package resolver_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/naming/resolver"
)

// Build returns at once, and the channel receives the reason for having no endpoints.
func TestOutageFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, other := clienttest.StartPair(t)
		register(t, other, "svc", map[string]string{"a": "1"})
		cluster.Member(0).Stop()
		began := time.Now()
		c := resolve(t, client, resolver.Config{}, "etcd:///svc")
		require.Zero(t, time.Since(began))
		require.ErrorContains(t, c.failure(t), "etcd cannot be reached")
		require.Equal(t, time.Second, time.Since(began))
		cluster.Member(0).Start()
		require.Equal(t, []string{"1"}, c.state(t))
	})
}

// An outage is reported once, with the list that stays in use, and so is its end. That the changes meanwhile were compacted
// is not reported.
func TestOutageIsReported(t *testing.T) {
	service := fmt.Sprintf("outage-%d", time.Now().UnixNano()) // unique to this run
	synctest.Test(t, func(t *testing.T) {
		cluster, client, other := clienttest.StartPair(t)
		register(t, client, service, map[string]string{"a": "1", "b": "2"})
		c := resolve(t, client, resolver.Config{}, "etcd:///"+service)
		require.Equal(t, []string{"1", "2"}, c.state(t))
		synctest.Wait()

		cluster.Member(0).Stop()
		err := c.failure(t)
		require.ErrorContains(t, err, "etcd cannot be reached: no endpoint serves")
		require.ErrorContains(t, err, "the last list, of 2, stays in use")
		time.Sleep(time.Minute)
		require.Empty(t, c.errs, "reported once")
		register(t, other, service, map[string]string{"a": ""})
		register(t, other, service, map[string]string{"c": "3"})
		require.NoError(t, cluster.Compact(cluster.Revision()))
		require.Empty(t, c.states, "the channel keeps its endpoints")
		cluster.Member(0).Start()
		time.Sleep(16 * time.Second) // the client reconnects within 15 s
		require.Len(t, grpcLog.About(service), 2)
		require.Contains(t, grpcLog.About(service)[0], "etcd cannot be reached")
		require.Contains(t, grpcLog.About(service)[1], "contact with etcd is restored")
		require.Equal(t, []string{"2", "3"}, c.state(t))
		require.Empty(t, c.states)
		require.Empty(t, c.errs)
		register(t, other, service, map[string]string{"d": "4"})
		require.Equal(t, []string{"2", "3", "4"}, c.state(t))
	})
}

// During an outage it is the reason for having no endpoints; afterwards, that none is registered.
func TestOutageOfAnEmptyList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, _ := clienttest.StartPair(t)
		c := resolve(t, client, resolver.Config{}, "etcd:///svc")
		require.ErrorContains(t, c.failure(t), "no endpoint is registered")
		synctest.Wait()
		cluster.Member(0).Stop()
		require.ErrorContains(t, c.failure(t), "etcd cannot be reached")
		cluster.Member(0).Start()
		require.ErrorContains(t, c.failure(t), "no endpoint is registered")
	})
}

// A member without a leader refuses each watch at once, but serves lists. The channel has a list,
// and the lost watch is reported. The log has one line, also if there is another reason later.
func TestWatchWithoutLeader(t *testing.T) {
	service := fmt.Sprintf("leader-%d", time.Now().UnixNano()) // unique to this run
	synctest.Test(t, func(t *testing.T) {
		cluster, client, other := clienttest.StartPair(t)
		register(t, client, service, map[string]string{"a": "1"})
		refused := clienttest.RefuseWatches(cluster, rpctypes.ErrGRPCNoLeader)
		c := resolve(t, client, resolver.Config{}, "etcd:///"+service)
		require.Equal(t, []string{"1"}, c.state(t))
		err := c.failure(t)
		require.ErrorContains(t, err, "no leader")
		require.ErrorContains(t, err, "the last list, of 1, stays in use")
		time.Sleep(time.Minute)
		require.Empty(t, c.errs, "reported once")
		cluster.Member(0).Stop()
		require.ErrorContains(t, c.failure(t), "etcd cannot be reached")
		cluster.Member(0).Start()
		require.Len(t, grpcLog.About(service), 1)
		refused.Remove()
		register(t, other, service, map[string]string{"b": "2"})
		require.Equal(t, []string{"1", "2"}, c.state(t))
	})
}
