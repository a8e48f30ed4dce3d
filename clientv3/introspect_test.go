package clientv3_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
)

func TestIntrospectShowsCalls(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		clienttest.Must(c.Put(t.Context(), "k", "v"))
		answer := make(chan struct{})
		cluster.On("Range", func(call *fakeetcd.Call) {
			if !call.Request.(*pb.RangeRequest).CountOnly { // it is no probe
				<-answer
			}
			call.Answer(call.Execute())
		})
		ctx := clienttest.Within(t)
		done := make(chan error)
		go func() { _, err := c.Get(ctx, "k"); done <- err }()
		time.Sleep(2 * time.Second)

		in := c.Introspect(introspect.Options{})
		require.True(t, in.Ready, in.NotReady)
		require.Equal(t, 1, in.Calls.InFlight)
		require.Equal(t, 1, in.Calls.Attempts)
		require.Equal(t, map[string]int{"/etcdserverpb.KV/Range": 1}, in.Calls.ByMethod)
		require.Len(t, in.Calls.Oldest, 1)
		oldest := in.Calls.Oldest[0]
		require.Equal(t, cluster.Endpoints()[0], oldest.Endpoint)
		require.InDelta(t, 2, oldest.AgeSeconds, 0.1)
		require.InDelta(t, 58, *oldest.LeftSeconds, 0.1)
		close(answer)
		require.NoError(t, <-done)

		in = c.Introspect(introspect.Options{})
		require.Zero(t, in.Calls.InFlight)
		require.Empty(t, in.Calls.Oldest)
		require.Len(t, in.Endpoints, 1)
		e := in.Endpoints[0]
		require.True(t, e.Connected)
		require.Len(t, e.Work, 2, "%v", e.Work)
		for _, w := range e.Work {
			require.EqualValues(t, 1, w.Ended, w.Shape)
			require.Zero(t, w.Failed)
		}
	})
}

func TestIntrospectShowsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 64 << 10
		cluster := clienttest.Start(t, 1)
		c := clienttest.Connect(t, cluster, Config{MaxWatchBufferBytes: bound})
		slow, fast := c.Watch(t.Context(), "k"), c.Watch(t.Context(), "k")
		var last int64
		for range 200 {
			last = clienttest.Put(t, cluster, "k", strings.Repeat("x", 4<<10))
			requireRevs(t, fast, last, last)
		}
		synctest.Wait()

		in := c.Introspect(introspect.Options{}).Watches
		require.Equal(t, 2, in.Open)
		require.Equal(t, 1, in.Streams)
		require.Equal(t, 1, in.ByState[introspect.WatchPaused], "%v", in.ByState)
		require.Equal(t, 1, in.ByState[introspect.WatchFollowing], "%v", in.ByState)
		require.Equal(t, last, in.Revision)
		require.Greater(t, in.BufferedBytes, int64(bound))
		require.Positive(t, in.LagRevisions)
		first := in.Furthest[0]
		require.Equal(t, introspect.WatchPaused, first.State)
		require.Equal(t, last-first.Revision, first.LagRevisions)
		require.Positive(t, first.Unread)
		require.Empty(t, first.Key, "keys are shown only on request")

		time.Sleep(5 * time.Second)
		in = c.Introspect(introspect.Options{Keys: true, Limit: 1}).Watches
		require.Len(t, in.Furthest, 1)
		require.Equal(t, "k", in.Furthest[0].Key)
		require.GreaterOrEqual(t, in.BlockedSeconds, 5.)
		for rev := int64(0); rev < last; {
			rev = (<-slow).Header.Revision
		}
		synctest.Wait()
		in = c.Introspect(introspect.Options{}).Watches
		require.Zero(t, in.BlockedSeconds)
	})
}

func TestIntrospectShowsLeases(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		id := grant(t, c)
		requireAlive(t, keepAlive(t, t.Context(), c, id))
		in := c.Introspect(introspect.Options{}).Leases
		require.Equal(t, 1, in.KeptAlive)
		require.Zero(t, in.Unanswered)
		require.InDelta(t, leaseTTL, *in.LeftSeconds, 1)

		cluster.Member(0).Stop()
		time.Sleep(leaseTTL * time.Second / 2)
		in = c.Introspect(introspect.Options{}).Leases
		require.Equal(t, 1, in.Unanswered)
		require.InDelta(t, leaseTTL/2, *in.LeftSeconds, 1)
		require.InDelta(t, *in.LeftSeconds, *in.Shortest[0].LeftSeconds, 0)
		require.InDelta(t, leaseTTL, in.Shortest[0].TTLSeconds, 0)
	})
}

// An unreachable cluster is not ready, and the error has the reason, at once.
func TestReady(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		require.NoError(t, c.Ready(t.Context()), "a new client makes a request")
		asked := cluster.Count("Range")
		require.NoError(t, c.Ready(t.Context()))
		require.Equal(t, asked, cluster.Count("Range"), "the second time the result is known")

		cluster.Member(0).Stop()
		time.Sleep(time.Minute)
		start := time.Now()
		err := c.Ready(t.Context())
		var notReady *NotReadyError
		require.ErrorAs(t, err, &notReady)
		require.Contains(t, err.Error(), cluster.Endpoints()[0]+" is dead")
		require.Zero(t, time.Since(start), "no request is made")
		in := c.Introspect(introspect.Options{})
		require.False(t, in.Ready)
		require.Equal(t, err.Error(), in.NotReady)

		cluster.Member(0).Start()
		time.Sleep(time.Minute)
		require.NoError(t, c.Ready(t.Context()))
		require.NoError(t, c.Close())
		require.ErrorIs(t, c.Ready(t.Context()), context.Canceled)
		require.Contains(t, c.Introspect(introspect.Options{}).NotReady, "canceled")
	})
}

// A client whose calls fail although its endpoints serve is not ready, with the reason, until one
// succeeds.
func TestReadyWhileCallsFail(t *testing.T) {
	var failing atomic.Bool
	sealed := errors.New("vault is sealed")
	for name, tt := range map[string]struct {
		want string
		set  func(cluster *fakeetcd.Cluster, c *Client)
	}{
		"no user name": {"user name is empty", func(cluster *fakeetcd.Cluster, _ *Client) {
			cluster.On("Range", func(call *fakeetcd.Call) {
				if failing.Load() {
					call.Answer(nil, rpctypes.ErrGRPCUserEmpty)
				}
			})
		}},
		"a token source": {"vault is sealed", func(*fakeetcd.Cluster, *Client) {}},
		"frozen": {"eadline", func(cluster *fakeetcd.Cluster, _ *Client) {
			cluster.On("*", func(call *fakeetcd.Call) {
				for failing.Load() && call.Context().Err() == nil {
					time.Sleep(10 * time.Millisecond)
				}
				if call.Context().Err() != nil {
					time.Sleep(time.Second) // its caller has given up
				}
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failing.Store(false)
				cluster := clienttest.Start(t, 1)
				tokens := 0
				c := clienttest.Connect(t, cluster, Config{TokenSource: func(context.Context) (string, error) {
					if tokens++; failing.Load() {
						return "", sealed
					}
					return fmt.Sprint("t", tokens), nil
				}})
				tt.set(cluster, c)
				get := func() error {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					_, err := c.Get(ctx, "k")
					return err
				}
				require.NoError(t, get())
				require.NoError(t, c.Ready(t.Context()))

				failing.Store(true)
				if name == "a token source" {
					cluster.Once("Range", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCInvalidAuthToken) })
				}
				done := make(chan error, 1)
				go func() { done <- get() }()
				time.Sleep(6 * time.Second)
				start := time.Now()
				require.ErrorContains(t, c.Ready(t.Context()), tt.want)
				require.LessOrEqual(t, time.Since(start), 2*time.Second)
				require.Error(t, <-done)
				err := c.Ready(t.Context())
				require.ErrorContains(t, err, tt.want)
				in := c.Introspect(introspect.Options{})
				require.False(t, in.Ready)
				require.Contains(t, in.NotReady, tt.want)

				failing.Store(false)
				require.NoError(t, c.Ready(t.Context()), "Ready asks, although the program may not")
				require.True(t, c.Introspect(introspect.Options{}).Ready)
			})
		})
	}
}

func TestReadyOfAClientThatMayNotRead(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		cluster.On("Range", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
		require.NoError(t, c.Ready(t.Context()))
	})
}

func TestReadyWaitsNoLongerThanItsContext(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		cluster.Member(0).Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, c.Ready(ctx), context.DeadlineExceeded)
	})
}

// Ready ends without a deadline, too, if the only member hangs.
func TestReadyOfAFrozenMember(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		cluster.Member(0).Freeze()
		require.ErrorIs(t, c.Ready(t.Context()), context.DeadlineExceeded)
	})
}

// A report shows no secret of the configuration.
func TestIntrospectShowsNoSecret(t *testing.T) {
	c, err := New(Config{
		Endpoints: []string{"http://user:hunter2@127.0.0.1:1"}, Token: "hunter2", Logger: zap.NewNop(), Balancer: "p2c",
	})
	require.NoError(t, err)
	defer c.Close()
	in := c.Introspect(introspect.Options{})
	js, err := json.Marshal(in)
	require.NoError(t, err)
	require.NotContains(t, string(js), "hunter2")
	require.Equal(t, "token", in.Config["Authentication"])
	require.Equal(t, "p2c", in.Config["Balancer"])
	require.Equal(t, "2s", in.Config["WriteStallTimeout"])
}

func TestIntrospectWithoutAConnection(t *testing.T) {
	for _, c := range []*Client{NewCtxClient(t.Context()), new(Client)} {
		in := c.Introspect(introspect.Options{})
		require.False(t, in.Ready)
		require.Empty(t, in.Endpoints)
		require.ErrorContains(t, c.Ready(t.Context()), "this client has no connection")
	}
}

// attacher is an observer that keeps the clients that are attached.
type attacher struct {
	observe.None
	introspect.Channels
}

func (a *attacher) Attach(client introspect.Source) (detach func()) { return a.Add(client) }

// A client is attached to its observer from New to Close, also to one of several, and not if New fails.
func TestAClientIsAttachedToItsObserver(t *testing.T) {
	cluster := clienttest.Start(t, 2)
	a := new(attacher)
	cfg := Config{
		Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop(),
		Observer: observe.Multi(new(struct{ observe.None }), a),
	}
	c, err := New(cfg)
	require.NoError(t, err)
	clienttest.Get(t, c, "k")
	require.Len(t, a.Introspect(introspect.Options{}).Endpoints, 2)
	require.NotEmpty(t, a.Metrics())
	require.NoError(t, c.Close())
	require.Empty(t, a.Metrics())

	sealed := errors.New("vault is sealed")
	cfg.TokenSource = func(context.Context) (string, error) { return "", sealed }
	_, err = New(cfg)
	require.ErrorIs(t, err, sealed)
	require.Empty(t, a.Metrics())
}
