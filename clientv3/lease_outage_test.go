package clientv3_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// In an outage in which streams open and then fail, leases that expire one after the other do not
// increase the rate of openings.
func TestOutageOfManyLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		cluster, c := clienttest.StartClient(t, 3)
		channels := make([]<-chan *LeaseKeepAliveResponse, n)
		for i := range channels {
			channels[i] = keepAlive(t, t.Context(), c, grant(t, c))
			time.Sleep(leaseTTL * time.Second / n)
		}
		cluster.On("LeaseKeepAlive", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCNoLeader) })
		for _, m := range cluster.Members() {
			m.BreakConnections()
		}
		// One opening per lease would be more than a hundred; the pauses between openings are random, and
		// short at first.
		const window, openings = 10 * time.Second, 60
		for passed := time.Duration(0); passed < leaseTTL*time.Second; passed += window {
			before := cluster.Count("LeaseKeepAlive")
			time.Sleep(window)
			require.LessOrEqual(t, cluster.Count("LeaseKeepAlive")-before, openings, "from %v on", passed)
		}
		time.Sleep(time.Second)
		for _, ch := range channels {
			requireEnded(t, ch)
		}
	})
}

// Close comes at any time after the first response, with the first request of another lease in
// flight.
func TestCloseWhileALeaseIsRenewed(t *testing.T) {
	cluster := clienttest.Start(t, 1)
	for range 300 {
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
		c := clienttest.Connect(t, cluster, Config{Logger: zap.New(blockedCore{zapcore.NewNopCore(), release})})
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

// blockedCore blocks for warnings.
type blockedCore struct {
	zapcore.Core
	release chan struct{}
}

func (b blockedCore) Enabled(level zapcore.Level) bool { return level == zapcore.WarnLevel }

func (b blockedCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !b.Enabled(e.Level) {
		return checked
	}
	return checked.AddCore(e, b)
}

func (b blockedCore) Write(zapcore.Entry, []zapcore.Field) error {
	<-b.release
	return nil
}
