package clientv3_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

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
		time.Sleep(leaseTTL / 3 * time.Second) // pauses between attempts to connect grow to 15 s
		require.NotZero(t, requireAlive(t, ch))
		time.Sleep(leaseTTL * time.Second)
		require.NotZero(t, requireAlive(t, ch))
	})
}

// rootClient enables authentication, and returns a client of root.
func rootClient(t *testing.T, cluster *fakeetcd.Cluster, c *Client) *Client {
	t.Helper()
	_, err := c.UserAdd(t.Context(), "root", "secret")
	require.NoError(t, err)
	_, err = c.UserGrantRole(t.Context(), "root", "root")
	require.NoError(t, err)
	_, err = c.AuthEnable(t.Context())
	require.NoError(t, err)
	return clienttest.Connect(t, cluster, Config{Username: "root", Password: "secret"})
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

// serveLeasesAsKine makes the members answer like kine 0.17, which has no leases.
func serveLeasesAsKine(cluster *fakeetcd.Cluster) {
	cluster.On("LeaseGrant", func(call *fakeetcd.Call) {
		ttl := call.Request.(*pb.LeaseGrantRequest).TTL
		call.Answer(&pb.LeaseGrantResponse{Header: &pb.ResponseHeader{}, ID: ttl, TTL: ttl}, nil)
	})
	for method, text := range map[string]string{
		"LeaseKeepAlive": "lease keep alive is not supported", "LeaseRevoke": "lease revoke is not supported",
	} {
		cluster.On(method, func(call *fakeetcd.Call) { call.Answer(nil, errors.New(text)) })
	}
}

func TestLeasesOnKine(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		serveLeasesAsKine(cluster)
		lease, err := c.Grant(t.Context(), leaseTTL)
		require.NoError(t, err)

		refusal := status.Error(codes.Unknown, "lease keep alive is not supported")
		for _, ctx := range []struct{ key, value string }{{"hasleader", "true"}, {"caller", "me"}} {
			start := time.Now()
			_, err = c.KeepAliveOnce(metadata.AppendToOutgoingContext(t.Context(), ctx.key, ctx.value), lease.ID)
			assert.EqualError(t, err, refusal.Error())
			assert.Less(t, time.Since(start), time.Second, "at once")
		}
		_, err = c.Revoke(t.Context(), lease.ID)
		assert.EqualError(t, err, status.Error(codes.Unknown, "lease revoke is not supported").Error())

		before := cluster.Count("LeaseKeepAlive")
		var m LeaseMonitor
		ch := keepAlive(t, WithLeaseMonitor(t.Context(), &m), c, lease.ID)
		_, open := <-ch
		require.False(t, open)
		assert.ErrorIs(t, m.Err(), ErrLeaseUnanswered)
		assert.ErrorContains(t, m.Err(), "not supported")
		assert.LessOrEqual(t, cluster.Count("LeaseKeepAlive")-before, 4*leaseTTL, "streams until the lease has ended")
	})
}

// TestKeepAliveOnceCarriesMetadata: the caller's metadata is sent, and not on a stream of others.
func TestKeepAliveOnceCarriesMetadata(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		id := grant(t, c)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "tenant", "blue")
		broken := cluster.Once("LeaseKeepAlive", func(call *fakeetcd.Call) { call.BreakConn() })
		resp, err := c.KeepAliveOnce(ctx, id)
		require.NoError(t, err)
		assert.Equal(t, id, resp.ID)
		assert.Equal(t, 1, broken.Ran(), "it survives a fault")
		calls := cluster.Calls("LeaseKeepAlive")
		require.Len(t, calls, 2)
		for _, call := range calls {
			assert.Equal(t, []string{"blue"}, call.Metadata.Get("tenant"))
			assert.Equal(t, []string{"true"}, call.Metadata.Get("hasleader"), "so that it ends where it cannot be served")
		}

		_, err = c.KeepAliveOnce(WithRequireLeader(t.Context()), id)
		require.NoError(t, err)
		_, err = c.KeepAliveOnce(t.Context(), id)
		require.NoError(t, err)
		calls = cluster.Calls("LeaseKeepAlive")
		require.Len(t, calls, 3, "one stream for all callers without metadata")
		assert.Empty(t, calls[2].Metadata.Get("tenant"))
	})
}

// Close comes at any time after the first response, with the first request of another lease in
// flight.
func TestCloseWhileALeaseIsRenewed(t *testing.T) {
	cluster := clienttest.Start(t, 1)
	for range 100 {
		c, err := New(Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop()})
		require.NoError(t, err)
		first, second := grant(t, c), grant(t, c)
		<-keepAlive(t, t.Context(), c, first)
		ch := keepAlive(t, t.Context(), c, second)
		require.NoError(t, c.Close())
		for range ch {
		}
	}
}

// A KeepAliveOnce during Close continues if the client is open.
func TestKeepAliveOnceThroughClose(t *testing.T) {
	for _, tt := range []struct {
		name string
		held func(cluster *fakeetcd.Cluster, method string, hold func(*fakeetcd.Call)) *fakeetcd.Hook
		end  func(c *Client) error
		want assert.ErrorAssertionFunc
	}{
		{"of the lease", (*fakeetcd.Cluster).Once, func(c *Client) error { return c.Lease.Close() }, assert.NoError},
		{"of the client", (*fakeetcd.Cluster).On, func(c *Client) error { return c.Close() }, func(t assert.TestingT, err error, _ ...any) bool {
			return assert.True(t, IsConnCanceled(err), "%v", err)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
				id := grant(t, c)
				tt.held(cluster, "LeaseKeepAlive", func(call *fakeetcd.Call) { _ = call.Hold(nil) })
				var once sync.WaitGroup
				once.Go(func() {
					_, err := c.KeepAliveOnce(t.Context(), id)
					tt.want(t, err)
				})
				synctest.Wait()
				require.NoError(t, tt.end(c))
				once.Wait()
			})
		})
	}
}

// A log that blocks delays no lease.
func TestBlockedLoggerDelaysNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := clienttest.Start(t, 1)
		release := make(chan struct{})
		core, _ := observer.New(zap.WarnLevel)
		block := zap.Hooks(func(zapcore.Entry) error {
			<-release
			return nil
		})
		c := clienttest.Connect(t, cluster, Config{Logger: zap.New(core, block)})
		defer close(release)
		unread, read := grant(t, c), grant(t, c)
		keepAlive(t, t.Context(), c, unread)
		ch := keepAlive(t, t.Context(), c, read)
		for range 20 {
			time.Sleep(leaseTTL / 2 * time.Second)
			require.NotZero(t, requireAlive(t, ch))
		}
	})
}
