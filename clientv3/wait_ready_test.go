package clientv3_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/testpki"
	"github.com/quorate/quorate/observe"
)

// New returns when the cluster serves.
func TestWaitReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := clienttest.Start(t, 1)
		cluster.Member(0).Stop()
		time.AfterFunc(3*time.Second, cluster.Member(0).Start)
		begin := time.Now()
		clienttest.Connect(t, cluster, Config{WaitReady: true})
		assert.GreaterOrEqual(t, time.Since(begin), 3*time.Second)
	})
}

// connectFailure ends a context when a connection has failed.
type connectFailure struct {
	observe.None
	end context.CancelFunc
}

func (f connectFailure) StateChanged(c health.Change) {
	if c.Evidence.Kind == health.ConnectFailed {
		f.end()
	}
}

// New fails with what is wrong.
func TestWaitReadySaysWhatIsWrong(t *testing.T) {
	var secure, plain realMember
	secure.start(t, "127.0.0.1:0", testpki.New(t, "member").Server(t))
	plain.start(t, "127.0.0.1:0", nil)
	for want, cfg := range map[string]Config{
		"certificate signed by unknown authority": {Endpoints: []string{"https://" + secure.addr}, TLS: testpki.New(t, "another").Client()},
		"failed to verify certificate":            {Endpoints: []string{"https://" + secure.addr}},
		"error reading server preface":            {Endpoints: []string{"http://" + secure.addr}},
		"first record does not look like a TLS":   {Endpoints: []string{"https://" + plain.addr}},
		"connect: connection refused":             {Endpoints: []string{"http://127.0.0.1:1"}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cfg.WaitReady, cfg.Logger = true, zap.NewNop()
		cfg.Context, cfg.Observer, cfg.DialTimeout = ctx, connectFailure{end: cancel}, time.Minute
		_, err := New(cfg)
		cancel()
		var notReady *NotReadyError
		require.ErrorAs(t, err, &notReady, want)
		require.ErrorIs(t, err, context.Canceled)
		assert.ErrorContains(t, err, want)
	}
}

// Without DialTimeout the wait ends after 15 s, also if a member accepts connections and answers nothing. A
// refusal ends it at once.
func TestWaitReadyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := clienttest.Start(t, 1)
		cfg := Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop(), WaitReady: true}
		cluster.Member(0).Freeze()
		begin := time.Now()
		_, err := New(cfg)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 15*time.Second, time.Since(begin).Round(time.Second))
		cluster.Member(0).Continue()
		cluster.Once("Range", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCUserEmpty) })
		_, err = New(cfg)
		require.ErrorIs(t, err, rpctypes.ErrUserEmpty)
	})
}

// callsWithoutDeadline are a read and a write.
var callsWithoutDeadline = map[string]func(ctx context.Context, c *Client) error{
	"Get": func(ctx context.Context, c *Client) error { _, err := c.Get(ctx, "k"); return err },
	"Put": func(ctx context.Context, c *Client) error { _, err := c.Put(ctx, "k", "v"); return err },
}

// Without a deadline, a call waits until its context ends for an endpoint that is reachable, and
// continues with it.
func TestCallWithoutDeadlineWhileNoEndpointIsReachable(t *testing.T) {
	for name, call := range callsWithoutDeadline {
		t.Run(name, func(t *testing.T) {
			clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
				for _, m := range cluster.Members() {
					m.Stop()
				}
				const longer = time.Hour
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(longer, cancel)
				start := time.Now()
				assert.Equal(t, context.Canceled, call(ctx, c))
				assert.Equal(t, longer, time.Since(start))

				time.AfterFunc(longer, cluster.Member(1).Start)
				require.NoError(t, call(t.Context(), c))
				assert.GreaterOrEqual(t, time.Since(start), 2*longer)
			})
		})
	}
}

// Calls to a member that is down end without a deadline, with the reason.
func TestStatusOfAMemberThatIsDown(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		down := cluster.Member(2)
		down.Stop()
		start := time.Now()
		_, err := c.Status(context.Background(), down.Endpoint())
		assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		assert.LessOrEqual(t, time.Since(start), 16*time.Second)

		start = time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = c.Status(ctx, down.Endpoint())
		require.Error(t, err)
		assert.LessOrEqual(t, time.Since(start), time.Second)

		restarted := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_, err := c.Status(ctx, down.Endpoint())
			restarted <- err
		}()
		time.Sleep(5 * time.Second)
		down.Start()
		assert.NoError(t, <-restarted)
	})
}

// Members that are down do not delay New, and those that answer decide.
func TestRejectOldClusterWithAMemberDown(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, _ *Client) {
		cfg := Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop(), RejectOldCluster: true}
		for n, limit := range []time.Duration{time.Second, 3 * time.Second, 3 * time.Second, 16 * time.Second} {
			start := time.Now()
			c, err := New(cfg)
			assert.LessOrEqual(t, time.Since(start), limit, "%d members down", n)
			if n == 3 {
				assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
				break
			}
			require.NoError(t, err)
			require.NoError(t, c.Close())
			cluster.Member(n).Stop()
		}
	})
}

// A member that is asked for its status while the others cannot issue a token is asked without.
func TestStatusWhileNoTokenCanBeFetched(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, _ *Client) {
		cfg := Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop()}
		c, err := New(cfg)
		require.NoError(t, err)
		defer c.Close()
		cluster.On("Authenticate", func(call *fakeetcd.Call) { _ = call.Hold(nil) })
		c.SetCredentials("root", "secret")
		start := time.Now()
		_, err = c.Status(context.Background(), cluster.Endpoints()[0])
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(start), 3*time.Second)
	})
}
