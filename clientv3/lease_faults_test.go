package clientv3_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestKeepAliveWhoseConnectionBreaks(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		id := grant(t, c)
		ch := keepAlive(t, t.Context(), c, id)
		for i := range 10 {
			time.Sleep(leaseTTL / 3 * time.Second)
			require.NotZero(t, requireAlive(t, ch), i)
			// A quiet stream is reopened after a random delay: not before all members are broken.
			time.Sleep(2 * time.Second)
			for _, m := range cluster.Members() {
				m.BreakConnections()
			}
			synctest.Wait()
		}
		time.Sleep(time.Second) // quiet streams are reopened within 100 ms
		assert.Equal(t, 11, cluster.Count("LeaseKeepAlive"))
	})
}

// The response is lost with its connection: the request is sent again at once, and only on the
// next stream.
func TestKeepAliveWhoseAnswerIsLost(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		id := grant(t, c)
		cluster.Once("LeaseKeepAlive", func(call *fakeetcd.Call) {
			call.OnSend(func(proto.Message) bool {
				call.BreakConn()
				return false
			})
			_, _ = call.Execute()
		})
		ch := keepAlive(t, t.Context(), c, id)
		time.Sleep(time.Second)
		require.Equal(t, 1, requireAlive(t, ch))
		require.Equal(t, 2, keepalives(cluster, id))
	})
}

// Validity counts from the request: the server may have renewed the lease then.
func TestLateAnswerProlongsFromItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const late = time.Second // earlier than a silent stream is cut
		cluster, c := clienttest.StartClient(t, 1)
		var asked atomic.Pointer[time.Time]
		cluster.On("LeaseKeepAlive", func(call *fakeetcd.Call) {
			call.OnSend(func(proto.Message) bool {
				now := time.Now()
				asked.Store(&now)
				time.Sleep(late)
				return true
			})
			_, _ = call.Execute()
		})
		var m LeaseMonitor
		ch := keepAlive(t, WithLeaseMonitor(t.Context(), &m), c, grant(t, c))
		for range 3 {
			<-ch
			require.Equal(t, *asked.Load(), m.LastRenewal())
			require.Equal(t, late, time.Since(m.LastRenewal()))
			require.Equal(t, leaseTTL*time.Second, m.Deadline().Sub(m.LastRenewal()))
		}
	})
}

// After the loss of the cluster, the channel is open as long as the lease is certainly valid, and
// no longer.
func TestKeepAliveIsGivenUpAtTheDeadline(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		id := grant(t, c)
		var m LeaseMonitor
		ch := keepAlive(t, WithLeaseMonitor(t.Context(), &m), c, id)
		<-ch
		time.Sleep(leaseTTL / 2 * time.Second)
		for _, member := range cluster.Members() {
			member.Stop()
		}
		drain(ch)
		for range ch {
			t.Error("no member is there to answer")
		}
		require.Equal(t, m.Deadline(), time.Now())
		require.ErrorIs(t, m.Err(), ErrLeaseUnanswered)
	})
}

// A lease that this client granted has its TTL, not DialTimeout and a second.
func TestGrantedLeaseOutlivesTheFirstAnswerDeadline(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		var m LeaseMonitor
		granted := time.Now()
		id := grant(t, c)
		cluster.Member(0).Stop()
		ch := keepAlive(t, WithLeaseMonitor(t.Context(), &m), c, id)
		unknown := keepAlive(t, t.Context(), c, id+1)
		require.Equal(t, granted.Add(leaseTTL*time.Second), m.Deadline())
		time.Sleep(leaseTTL / 2 * time.Second)
		requireAlive(t, ch)
		requireEnded(t, unknown)
		cluster.Member(0).Start()
		time.Sleep(leaseTTL / 4 * time.Second)
		require.NotZero(t, requireAlive(t, ch))
		time.Sleep(leaseTTL * time.Second)
		require.NotZero(t, requireAlive(t, ch))
	})
}

func rootClient(t *testing.T, cluster *fakeetcd.Cluster, c *Client) *Client {
	t.Helper()
	_, err := c.UserAdd(t.Context(), "root", "secret")
	require.NoError(t, err)
	_, err = c.UserGrantRole(t.Context(), "root", "root")
	require.NoError(t, err)
	_, err = c.AuthEnable(t.Context())
	require.NoError(t, err)
	return userClient(t, cluster, "root")
}

func userClient(t *testing.T, cluster *fakeetcd.Cluster, name string) *Client {
	t.Helper()
	return clienttest.Connect(t, cluster, Config{Username: name, Password: "secret"})
}

func TestKeepAliveOutlivesItsToken(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		root := rootClient(t, cluster, c)
		id := grant(t, root)
		ch := keepAlive(t, t.Context(), root, id)
		require.Equal(t, 1, requireAlive(t, ch))
		require.Equal(t, 1, cluster.Count("Authenticate"))
		for i := range 3 {
			cluster.InvalidateTokens()
			time.Sleep(leaseTTL / 3 * time.Second)
			require.NotZero(t, requireAlive(t, ch))
			require.Equal(t, 2+i, cluster.Count("Authenticate"))
			require.Equal(t, 2+i, cluster.Count("LeaseKeepAlive"))
		}
		for range 20 {
			_, err := root.KeepAliveOnce(t.Context(), id)
			require.NoError(t, err)
		}
		require.Equal(t, 4, cluster.Count("Authenticate"), "one-shots cost no token")
	})
}

func TestKeepAliveFollowsTheEndpoints(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		id := grant(t, c)
		ch := keepAlive(t, t.Context(), c, id)
		<-ch
		for i, m := range cluster.Members() {
			c.SetEndpoints(m.Endpoint())
			time.Sleep(2 * time.Second)
			calls := cluster.Calls("LeaseKeepAlive")
			require.Equal(t, m, calls[len(calls)-1].Member)
			require.LessOrEqual(t, len(calls), i+2)
			time.Sleep(leaseTTL * time.Second)
			require.NotZero(t, requireAlive(t, ch))
		}
	})
}

// Members restart one after the other, with requests in flight at all times.
func TestKeepAliveThroughARollingRestart(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		var channels []<-chan *LeaseKeepAliveResponse
		for range 100 {
			channels = append(channels, keepAlive(t, t.Context(), c, grant(t, c)))
		}
		for range 3 {
			for _, m := range cluster.Members() {
				m.Stop()
				time.Sleep(leaseTTL / 4 * time.Second)
				m.Start()
				time.Sleep(leaseTTL / 4 * time.Second)
			}
			for _, ch := range channels {
				require.GreaterOrEqual(t, requireAlive(t, ch), 3)
			}
		}
	})
}

// An unexpected response, a second one, and responses in another order are matched to no other
// lease.
func TestKeepAliveWithAProxyThatMixesAnswers(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		a, b := grant(t, c), grant(t, c)
		cluster.On("LeaseKeepAlive", func(call *fakeetcd.Call) {
			for {
				first, err := call.Recv()
				if err != nil {
					return
				}
				second, err := call.Recv()
				if err != nil {
					return
				}
				for _, req := range []proto.Message{second, second, first} {
					id := req.(*pb.LeaseKeepAliveRequest).ID
					_ = call.Send(&pb.LeaseKeepAliveResponse{Header: &pb.ResponseHeader{}, ID: id, TTL: leaseTTL})
				}
				_ = call.Send(&pb.LeaseKeepAliveResponse{Header: &pb.ResponseHeader{}, ID: 7})
			}
		})
		chA, chB := keepAlive(t, t.Context(), c, a), keepAlive(t, t.Context(), c, b)
		synctest.Wait()
		require.Equal(t, 1, requireAlive(t, chA))
		require.Equal(t, 1, requireAlive(t, chB))
	})
}

// A KeepAlive that is cancelled during a renewal does not affect the others.
func TestKeepAliveThatEndsInTheMiddle(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		id := grant(t, c)
		release := make(chan struct{})
		cluster.Once("LeaseKeepAlive", func(call *fakeetcd.Call) {
			call.OnSend(func(proto.Message) bool { return call.Hold(release) == nil })
			_, _ = call.Execute()
		})
		ctx, cancel := context.WithCancel(t.Context())
		ch := keepAlive(t, ctx, c, id)
		require.Zero(t, requireAlive(t, ch))
		cancel()
		requireEnded(t, ch)
		again := keepAlive(t, t.Context(), c, id)
		require.Zero(t, requireAlive(t, again))
		close(release)
		require.Equal(t, 1, requireAlive(t, again), "by a request of its own")
		require.Equal(t, 2, keepalives(cluster, id))
	})
}
