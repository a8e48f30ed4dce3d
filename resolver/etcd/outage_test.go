package etcd_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/resolver/etcd"
)

// Build returns at once, and the channel learns why it has no endpoints.
func TestEtcdIsAwayFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, other := start(t)
		register(t, other, "svc", map[string]string{"a": "1"})
		cluster.Member(0).Stop()
		c := newChannel()
		began := time.Now()
		resolveWith(t, client, etcd.Config{}, "etcd:///svc", c)
		require.Zero(t, time.Since(began))
		require.ErrorContains(t, c.failure(t), "etcd cannot be reached")
		require.Equal(t, time.Second, time.Since(began))
		cluster.Member(0).Start()
		require.Equal(t, []string{"1"}, c.state(t))
	})
}

// An outage is told once, with the list that stays in use, and so is its end. Nothing is
// published for it.
func TestOutageIsTold(t *testing.T) {
	service := fmt.Sprintf("told-%d", time.Now().UnixNano()) // whose lines are those of this run
	synctest.Test(t, func(t *testing.T) {
		cluster, client, other := start(t)
		register(t, client, service, map[string]string{"a": "1", "b": "2"})
		c := newChannel()
		resolveWith(t, client, etcd.Config{}, "etcd:///"+service, c)
		require.Equal(t, []string{"1", "2"}, c.state(t))
		synctest.Wait()

		cluster.Member(0).Stop()
		err := c.failure(t)
		require.ErrorContains(t, err, "etcd cannot be reached: no endpoint serves")
		require.ErrorContains(t, err, "the last list, of 2, stays in use")
		time.Sleep(time.Minute)
		require.Empty(t, c.errs, "it is told once")
		cluster.Member(0).Start()
		time.Sleep(11 * time.Second) // connections are made again within 10 s
		require.Len(t, grpcLog.lines(service), 2)
		require.Contains(t, grpcLog.lines(service)[0], "etcd cannot be reached")
		require.Contains(t, grpcLog.lines(service)[1], "in touch with etcd again")
		require.Empty(t, c.states)
		require.Empty(t, c.errs)
		register(t, other, service, map[string]string{"a": ""})
		require.Equal(t, []string{"2"}, c.state(t))
	})
}

// While etcd is away that is why there are no endpoints; afterwards it is that there are none.
func TestOutageOfAnEmptyList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, _ := start(t)
		c := newChannel()
		resolveWith(t, client, etcd.Config{}, "etcd:///svc", c)
		require.ErrorContains(t, c.failure(t), "no endpoint is registered")
		synctest.Wait()
		cluster.Member(0).Stop()
		require.ErrorContains(t, c.failure(t), "etcd cannot be reached")
		cluster.Member(0).Start()
		require.ErrorContains(t, c.failure(t), "no endpoint is registered")
	})
}

// A member without a leader refuses each watch at once, and lists all the same. The channel
// has a list, and must learn that nobody follows it.
func TestWatchIsRefusedForWantOfALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, other := start(t)
		register(t, client, "svc", map[string]string{"a": "1"})
		refused := cluster.On("Watch", func(c *fakeetcd.Call) {
			if _, err := c.Recv(); err != nil {
				return
			}
			_ = c.Send(&pb.WatchResponse{
				Header: &pb.ResponseHeader{Revision: 1}, WatchId: -1, Created: true, Canceled: true,
				CancelReason: rpctypes.ErrGRPCNoLeader.Error(),
			})
			<-c.Context().Done()
		})
		c := newChannel()
		resolveWith(t, client, etcd.Config{}, "etcd:///svc", c)
		require.Equal(t, []string{"1"}, c.state(t))
		err := c.failure(t)
		require.ErrorContains(t, err, "no leader")
		require.ErrorContains(t, err, "the last list, of 1, stays in use")
		time.Sleep(time.Minute)
		require.Empty(t, c.errs, "it is told once")
		refused.Remove()
		register(t, other, "svc", map[string]string{"b": "2"})
		require.Equal(t, []string{"1", "2"}, c.state(t))
	})
}
