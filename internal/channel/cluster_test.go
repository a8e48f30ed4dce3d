package channel

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/pause"
)

// startCluster returns a scripted cluster that ends with the test.
func startCluster(t *testing.T, members int) *fakeetcd.Cluster {
	t.Helper()
	cluster := must(fakeetcd.Start(members))
	t.Cleanup(cluster.Close)
	return cluster
}

// inBubble runs a test with a scripted cluster of three members and a channel that is connected to
// all of them and has measured their latencies. Hooks are set before it connects.
func inBubble(t *testing.T, change func(*Config), test func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, w *recorder), hooks ...func(*fakeetcd.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster := startCluster(t, 3)
		for _, set := range hooks {
			set(cluster)
		}
		w := new(recorder)
		cfg := Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Observer: w}
		if change != nil {
			change(&cfg)
		}
		c := newTestChannel(t, cfg)
		for range 60 {
			require.NoError(t, readK(t, c))
			require.NoError(t, put(t.Context(), c))
			time.Sleep(time.Millisecond)
		}
		w.mu.Lock()
		w.picks, w.sent, w.won = nil, nil, nil
		w.mu.Unlock()
		test(t, cluster, c, w)
	})
}

func readK(t *testing.T, c *Channel) error {
	t.Helper()
	_, err := pb.NewKVClient(c).Range(t.Context(), &pb.RangeRequest{Key: []byte("k")}, grpc.WaitForReady(true))
	return err
}

// holdOn makes one member never answer the calls of a method.
func holdOn(cluster *fakeetcd.Cluster, m *fakeetcd.Member, method string) *fakeetcd.Hook {
	return cluster.On(method, func(call *fakeetcd.Call) {
		if call.Member == m {
			_ = call.Hold(nil)
		}
	})
}

// Interceptors see each attempt, the hedge too.
func TestReadsAreHedgedAwayFromASilentMember(t *testing.T) {
	var mu sync.Mutex
	var seen []time.Time
	seeing := func(cfg *Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				mu.Lock()
				seen = append(seen, time.Now())
				mu.Unlock()
				return invoke(ctx, method, req, reply, cc, opts...)
			}))
	}
	inBubble(t, seeing, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, w *recorder) {
		held := holdOn(cluster, cluster.Member(0), "Range")
		for range 9 {
			seen = nil
			start, hedges := time.Now(), len(w.won)
			require.NoError(t, readK(t, c))
			assert.LessOrEqual(t, time.Since(start), 30*time.Millisecond)
			if len(w.won) > hedges {
				require.Len(t, seen, 2)
				assert.GreaterOrEqual(t, seen[1].Sub(seen[0]), 20*time.Millisecond)
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		require.NotEmpty(t, w.won)
		assert.Equal(t, w.sent, w.won)
		for _, h := range w.won {
			assert.Equal(t, cluster.Member(0).Endpoint(), h.First)
			assert.NotEqual(t, h.First, h.Second)
		}
		assert.Empty(t, w.retries)
		assert.Positive(t, held.Ran())
	})
}

func TestEjectionsAreReported(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, w *recorder) {
		answered := false
		cluster.On("Range", func(call *fakeetcd.Call) {
			if call.Member == cluster.Member(1) && !answered {
				answered = true
				call.Answer(nil, rpctypes.ErrGRPCNoLeader)
			}
		})
		for range 3 {
			require.NoError(t, readK(t, c))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Len(t, w.ejected, 1)
		assert.Equal(t, cluster.Member(1).Endpoint(), w.ejected[0].Endpoint)
		assert.Equal(t, health.Degraded, w.ejected[0].State)
		require.Len(t, w.readmits, 1)
		assert.Equal(t, cluster.Member(1).Endpoint(), w.readmits[0].Endpoint)
		require.Len(t, w.retries, 1)
		assert.Equal(t, "NoLeader", w.retries[0].Class)
		require.Len(t, w.failovers, 1)
		assert.Equal(t, cluster.Member(1).Endpoint(), w.failovers[0].From)
	})
}

// The member of a quiet stream is probed periodically until the stream ends.
func TestQuietStreamsAreProbed(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *recorder) {
		probes := func() int {
			synctest.Wait()
			return cluster.Count("Status") + cluster.Count("Check")
		}
		for _, byOwner := range []bool{true, false} {
			before := probes()
			release := make(chan struct{})
			cluster.Once("Watch", func(call *fakeetcd.Call) {
				assert.NoError(t, call.Send(&pb.WatchResponse{Created: true}))
				if call.Hold(release) == nil {
					call.Answer(nil, status.Error(codes.Aborted, "no further probes"))
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			ws := must(pb.NewWatchClient(c.Streams()).Watch(ctx, grpc.WaitForReady(true)))
			must(ws.Recv())
			time.Sleep(time.Minute)
			during := probes()
			assert.Greater(t, during, before)
			if byOwner {
				cancel()
			} else {
				close(release)
				_, err := ws.Recv()
				require.Equal(t, codes.Aborted, status.Code(err))
			}
			time.Sleep(time.Minute)
			assert.LessOrEqual(t, probes(), during+1)
			cancel()
		}
	})
}

func TestPicksAndSetEndpointsAreReported(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, w *recorder) {
		for _, s := range c.Statuses() {
			assert.Equal(t, health.Serving, s.State)
			assert.Contains(t, cluster.Endpoints(), s.Endpoint)
		}
		assert.Len(t, c.Statuses(), 3)
		require.NoError(t, readK(t, c))
		w.mu.Lock()
		require.Len(t, w.picks, 1)
		assert.Contains(t, cluster.Endpoints(), w.picks[0].Endpoint)
		assert.Equal(t, pb.KV_Range_FullMethodName, w.picks[0].Method)
		w.mu.Unlock()
		c.SetEndpoints(cluster.Endpoints()[:2])
		require.NoError(t, c.Close())
		c.SetEndpoints(cluster.Endpoints()) // as a Sync that was under way
		assert.Equal(t, [][]string{cluster.Endpoints(), cluster.Endpoints()[:2], nil}, w.endpoints)
	})
}

// Without probes, a strategy that uses roles works without them.
func TestLeaderStrategyWithoutProbes(t *testing.T) {
	unprobed := func(cfg *Config) { cfg.DisableProbes, cfg.Balancing = true, Balancing{Strategy: "leader"} }
	inBubble(t, unprobed, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *recorder) {
		require.NoError(t, readK(t, c))
		assert.Zero(t, cluster.Count("Status")+cluster.Count("Check"))
	})
}

// putsAt returns how many puts each member receives.
func putsAt(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, n int) map[string]int {
	t.Helper()
	before := len(cluster.Calls("Put"))
	for range n {
		require.NoError(t, putK(t, c, time.Second))
	}
	at := make(map[string]int)
	for _, call := range cluster.Calls("Put")[before:] {
		at[call.Member.Name()]++
	}
	return at
}

// Members are asked for their role once per connection and once per term.
func TestLeaderIsFoundWithoutPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := startCluster(t, 3)
		cluster.SetLeader(cluster.Member(1))
		c := newTestChannel(t, Config{
			Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Balancing: Balancing{Strategy: "leader"},
		})
		require.NoError(t, putK(t, c, time.Second))
		synctest.Wait()
		assert.LessOrEqual(t, cluster.Count("Status"), 6, "one per connection, and perhaps one before it")
		assert.Equal(t, map[string]int{"member-1": 30}, putsAt(t, cluster, c, 30))

		asked := cluster.Count("Status")
		for range 20 {
			assert.Equal(t, map[string]int{"member-1": 30}, putsAt(t, cluster, c, 30))
			time.Sleep(time.Second)
		}
		assert.Equal(t, asked, cluster.Count("Status"))

		cluster.SetLeader(cluster.Member(2))
		require.NoError(t, putK(t, c, time.Second))
		synctest.Wait()
		assert.Equal(t, map[string]int{"member-2": 30}, putsAt(t, cluster, c, 30))
		assert.LessOrEqual(t, cluster.Count("Status"), asked+3)

		asked = cluster.Count("Status")
		for range 10 {
			cluster.Member(0).BreakConnections()
			time.Sleep(time.Second)
		}
		assert.LessOrEqual(t, cluster.Count("Status"), asked+10, "one per connection")
		assert.Equal(t, map[string]int{"member-2": 30}, putsAt(t, cluster, c, 30))

		asked = cluster.Count("Status")
		cluster.Member(2).Stop()
		cluster.SetLeader(cluster.Member(0))
		synctest.Wait()
		require.NoError(t, putK(t, c, time.Second))
		synctest.Wait()
		assert.Equal(t, map[string]int{"member-0": 30}, putsAt(t, cluster, c, 30))
		assert.LessOrEqual(t, cluster.Count("Status"), asked+3)
	})
}

// Ranges whose responses are large use a connection of their own, for as long as they are large.
func TestLargeRangesHaveAConnectionOfTheirOwn(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *recorder) {
		size := largeResponse
		cluster.On("Range", func(call *fakeetcd.Call) {
			if len(call.Request.(*pb.RangeRequest).GetRangeEnd()) > 0 {
				call.Answer(&pb.RangeResponse{Header: &pb.ResponseHeader{}, Kvs: []*mvccpb.KeyValue{{Key: []byte("a"), Value: make([]byte, size)}}}, nil)
			}
		})
		get := func(end string) {
			t.Helper()
			must(pb.NewKVClient(c).Range(t.Context(), &pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte(end)}))
			synctest.Wait() // the connection is made beside the call
		}
		before := dials(cluster)
		get("b")
		assert.Equal(t, before, dials(cluster), "its size is not known yet")
		get("b")
		assert.NotEqual(t, before, dials(cluster))
		with := dials(cluster)
		for range 10 {
			get("b")
			require.NoError(t, readK(t, c))
		}
		assert.Equal(t, with, dials(cluster), "one such connection is enough")
		size = 1
		get("b")
		assert.False(t, c.large.has(&pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte("b")}))
	})
}

func TestLargeRangesAreBounded(t *testing.T) {
	var l largeRanges
	large := &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Value: make([]byte, largeResponse)}}}
	for n := range 2 * maxLargeRanges {
		l.learn(&pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte{byte(n >> 8), byte(n), 1}}, large)
	}
	assert.EqualValues(t, maxLargeRanges, l.count.Load())
	page := &pb.RangeRequest{Key: []byte("a/x"), RangeEnd: []byte{0, 1, 1}}
	assert.True(t, l.has(page), "another page of the same prefix")
	page.KeysOnly = true
	assert.False(t, l.has(page))
	page.KeysOnly, page.Limit = false, 10
	assert.False(t, l.has(page), "its response is bounded")
	l.learn(&pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte{0, 1, 1}}, &pb.RangeResponse{})
	assert.EqualValues(t, maxLargeRanges-1, l.count.Load())
}

// A member with thousands of clients takes long for each handshake.
func TestSlowHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := startCluster(t, 1)
		const handshake = 15 * time.Second
		cluster.OnDial(func(ctx context.Context, _ *fakeetcd.Member) error { return pause.For(ctx, handshake) })
		c := newTestChannel(t, Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions()})
		start := time.Now()
		require.NoError(t, readK(t, c))
		assert.Less(t, time.Since(start), handshake+time.Second)
		assert.Equal(t, 1, cluster.Member(0).Dials())
	})
}
