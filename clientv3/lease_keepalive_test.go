package clientv3_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// leaseTTL is the TTL of the leases in these tests, in seconds.
const leaseTTL = 60

func grant(t *testing.T, lease Lease) LeaseID {
	t.Helper()
	resp := clienttest.Must(lease.Grant(t.Context(), leaseTTL))
	return resp.ID
}

func keepAlive(t *testing.T, ctx context.Context, lease Lease, id LeaseID) <-chan *LeaseKeepAliveResponse {
	t.Helper()
	ch := clienttest.Must(lease.KeepAlive(ctx, id))
	return ch
}

// drain reads the buffered responses of a channel, and reports whether it is closed.
func drain(ch <-chan *LeaseKeepAliveResponse) (n int, closed bool) {
	for {
		select {
		case _, ok := <-ch:
			if !ok {
				return n, true
			}
			n++
		default:
			return n, false
		}
	}
}

func requireAlive(t *testing.T, ch <-chan *LeaseKeepAliveResponse) (n int) {
	t.Helper()
	synctest.Wait()
	n, closed := drain(ch)
	require.False(t, closed)
	return n
}

func requireEnded(t *testing.T, ch <-chan *LeaseKeepAliveResponse) {
	t.Helper()
	synctest.Wait()
	_, closed := drain(ch)
	require.True(t, closed)
}

// keepalives counts the keepalives of a lease that reached a member.
func keepalives(cluster *fakeetcd.Cluster, id LeaseID) (n int) {
	for _, call := range cluster.Calls("LeaseKeepAlive") {
		for _, req := range call.Requests {
			if req.(*pb.LeaseKeepAliveRequest).ID == int64(id) {
				n++
			}
		}
	}
	return n
}

func TestKeepAlive(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		id := grant(t, c)
		ch := keepAlive(t, t.Context(), c, id)
		resp := <-ch
		require.Equal(t, id, resp.ID)
		require.Equal(t, int64(leaseTTL), resp.TTL)
		require.NotZero(t, resp.Revision)
		other := keepAlive(t, t.Context(), c, id)
		time.Sleep(5 * time.Minute)
		require.InDelta(t, 15, requireAlive(t, ch), 1)
		require.InDelta(t, 15, requireAlive(t, other), 1)
		require.InDelta(t, 16, keepalives(cluster, id), 1, "they share the renewals")
		calls := cluster.Calls("LeaseKeepAlive")
		require.Len(t, calls, 1)
		require.Equal(t, []string{"true"}, calls[0].Metadata.Get("hasleader"))
	})
}

func TestKeepAliveEndsWithTheLease(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		expired, revoked, unknown := grant(t, c), grant(t, c), LeaseID(7)
		monitors := map[LeaseID]*LeaseMonitor{expired: {}, revoked: {}, unknown: {}}
		channels := map[LeaseID]<-chan *LeaseKeepAliveResponse{}
		for id, m := range monitors {
			channels[id] = keepAlive(t, WithLeaseMonitor(t.Context(), m), c, id)
		}
		n, closed := 0, false
		synctest.Wait()
		n, closed = drain(channels[unknown])
		require.True(t, closed)
		require.Zero(t, n)

		clienttest.Must(c.Revoke(t.Context(), revoked))
		n, closed = drain(channels[revoked])
		require.True(t, closed)
		require.Zero(t, n, "the response of the renewal is out of date")
		require.NoError(t, cluster.ExpireLease(int64(expired)))
		requireAlive(t, channels[expired])
		time.Sleep(leaseTTL / 3 * time.Second)
		requireEnded(t, channels[expired])
		for _, m := range monitors {
			require.Equal(t, rpctypes.ErrLeaseNotFound, m.Err())
		}
		again := keepAlive(t, t.Context(), c, revoked)
		requireEnded(t, again)
	})
}

// uncomparable is a context that cannot be the key of a map.
type uncomparable struct {
	context.Context
	_ []int
}

// #22081, #22094: when a listener leaves, its own channel is closed, and renewals end with the
// last listener.
func TestKeepAliveClosesTheRightChannel(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		id := grant(t, c)
		var m LeaseMonitor
		strict := keepAlive(t, WithLeaseMonitor(WithRequireLeader(t.Context()), &m), c, id)
		first, leaveFirst := context.WithCancel(t.Context())
		second, leaveSecond := context.WithCancel(t.Context())
		defer leaveSecond()
		var left LeaseMonitor
		chFirst := keepAlive(t, uncomparable{Context: WithLeaseMonitor(first, &left)}, c, id)
		chSecond := keepAlive(t, uncomparable{Context: second}, c, id)

		cluster.SetLeader(nil)
		time.Sleep(2 * time.Second)
		requireEnded(t, strict)
		require.Equal(t, rpctypes.ErrNoLeader, m.Err())
		_, err := c.KeepAliveOnce(uncomparable{Context: WithRequireLeader(t.Context())}, id)
		require.Equal(t, rpctypes.ErrNoLeader, err)
		requireAlive(t, chFirst)
		requireAlive(t, chSecond)
		cluster.SetLeader(cluster.Member(0))

		leaveFirst()
		requireEnded(t, chFirst)
		require.Equal(t, context.Canceled, left.Err())
		requireAlive(t, chSecond)
		time.Sleep(leaseTTL * time.Second)
		require.NotZero(t, requireAlive(t, chSecond))

		leaveSecond()
		requireEnded(t, chSecond)
		before := keepalives(cluster, id)
		time.Sleep(10 * leaseTTL * time.Second)
		require.Equal(t, before, keepalives(cluster, id))
	})
}

func TestKeepAliveAfterTheContext(t *testing.T) {
	_, c := clienttest.StartClient(t, 1)
	ctx := clienttest.Ended(t)
	var m LeaseMonitor
	ch := clienttest.Must(c.KeepAlive(WithLeaseMonitor(ctx, &m), 1))
	_, ok := <-ch
	require.False(t, ok)
	require.Equal(t, context.Canceled, m.Err())
	_, err := c.KeepAliveOnce(ctx, 1)
	require.Equal(t, context.Canceled, err)
}

func TestKeepAliveAfterClose(t *testing.T) {
	for name, end := range map[string]func(c *Client){
		"of the lease":  func(c *Client) { assert.NoError(t, c.Lease.Close()) },
		"of the client": func(c *Client) { assert.NoError(t, c.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			_, c := clienttest.StartClient(t, 1)
			var m LeaseMonitor
			open := keepAlive(t, WithLeaseMonitor(t.Context(), &m), c, grant(t, c))
			<-open
			end(c)
			_, ok := <-open
			require.False(t, ok)
			require.ErrorAs(t, m.Err(), &ErrKeepAliveHalted{})

			ch, err := c.KeepAlive(clienttest.Ended(t), 1) // a loop with c.Ctx() ends
			require.Equal(t, ErrKeepAliveHalted{Reason: context.Canceled}, err)
			require.EqualError(t, err, "etcdclient: leases keep alive halted: context canceled")
			require.ErrorIs(t, err, context.Canceled)
			require.True(t, IsConnCanceled(err))
			_, ok = <-ch
			require.False(t, ok)
			require.NoError(t, c.Lease.Close())
		})
	}
	require.EqualError(t, ErrKeepAliveHalted{}, "etcdclient: leases keep alive halted")
}

func TestKeepAliveOnceAfterClose(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 3)
	id := grant(t, c)
	require.NoError(t, c.Lease.Close())
	resp := clienttest.Must(c.KeepAliveOnce(t.Context(), id))
	require.Equal(t, id, resp.ID)
	require.Equal(t, int64(leaseTTL), resp.TTL)
	_, err := c.KeepAliveOnce(t.Context(), id+1)
	require.Equal(t, rpctypes.ErrLeaseNotFound, err)

	broken := cluster.Once("LeaseKeepAlive", func(call *fakeetcd.Call) { call.BreakConn() })
	clienttest.Must(c.KeepAliveOnce(t.Context(), id))
	require.Equal(t, 1, broken.Ran())

	require.NoError(t, c.Close())
	_, err = c.KeepAliveOnce(t.Context(), id)
	require.True(t, IsConnCanceled(err), "%v", err)
}

// The lease is kept alive even if the channel is not read, and the log says so once.
func TestKeepAliveThatIsNotRead(t *testing.T) {
	for _, size := range []int{16, 0} {
		old := LeaseResponseChSize
		LeaseResponseChSize = size
		defer func() { LeaseResponseChSize = old }()
		synctest.Test(t, func(t *testing.T) {
			cluster := clienttest.Start(t, 1)
			core, logs := observer.New(zap.WarnLevel)
			c := clienttest.Connect(t, cluster, Config{Logger: zap.New(core)})
			id := grant(t, c)
			ch := keepAlive(t, t.Context(), c, id)
			time.Sleep(20 * leaseTTL / 3 * time.Second)
			require.InDelta(t, 21, keepalives(cluster, id), 1)
			require.Equal(t, size, requireAlive(t, ch))
			full := logs.FilterMessage("lease keepalive response queue is full; dropping response send").All()
			require.NotEmpty(t, full)
			require.LessOrEqual(t, len(full), 20*leaseTTL/3/60+1, "a line a minute")
			require.Equal(t, int64(size), full[0].ContextMap()["queue-capacity"])
			require.Len(t, full, logs.Len())
		})
	}
}

func TestKeepAliveOnce(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		id := grant(t, c)
		for range 50 {
			resp := clienttest.Must(c.KeepAliveOnce(t.Context(), id))
			require.Equal(t, id, resp.ID)
			require.Equal(t, int64(leaseTTL), resp.TTL)
		}
		require.Equal(t, 1, cluster.Count("LeaseKeepAlive"), "one stream for all")
		time.Sleep(10 * leaseTTL * time.Second)
		require.Equal(t, 50, keepalives(cluster, id), "no further renewals")

		_, err := c.KeepAliveOnce(t.Context(), 7)
		require.Equal(t, rpctypes.ErrLeaseNotFound, err)
	})
}

func TestLeaseWithoutAConnection(t *testing.T) {
	lease := NewLease(NewCtxClient(t.Context()))
	defer lease.Close()
	_, err := lease.KeepAliveOnce(t.Context(), 1)
	require.ErrorContains(t, err, "this client has no connection")
}
