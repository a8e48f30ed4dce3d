package clientv3_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// TestWatchRefused: the server refuses a watch, with the texts of etcd and of its proxy.
func TestWatchRefused(t *testing.T) {
	tests := map[string]struct {
		reason string
		want   error
	}{
		"permission denied":            {rpctypes.ErrGRPCPermissionDenied.Error(), rpctypes.ErrPermissionDenied},
		"permission denied by a proxy": {rpctypes.ErrPermissionDenied.Error(), rpctypes.ErrPermissionDenied},
		"compacted":                    {rpctypes.ErrCompacted.Error(), rpctypes.ErrCompacted},
		"no reason":                    {"", rpctypes.ErrFutureRev},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, 1)
			streams := scriptWatches(t, cluster, 1)
			starting := startWatch(clienttest.Within(t), c, "k", WithCreatedNotify())
			s := take(t, streams)
			s.createRequest()
			s.refused(tt.reason)
			require.Equal(t, tt.reason, requireEnd(t, started(t, starting), tt.want).CancelReason)
		})
	}
}

// TestWatchRefusedAmongMany creates many watches together, some of which the server refuses. The
// others are not affected.
func TestWatchRefusedAmongMany(t *testing.T) {
	const watches = 200
	cluster, c := clienttest.StartClient(t, 1)
	ctx := clienttest.Within(t)
	var starting [watches]<-chan WatchChan
	for i := range watches {
		var opts []OpOption
		switch i % 10 {
		case 3:
			opts = append(opts, WithRange("a")) // ends before it begins
		case 7:
			opts = append(opts, WithRev(-1))
		}
		starting[i] = startWatch(ctx, c, fmt.Sprintf("k%d", i), opts...)
	}
	var running [watches]WatchChan
	for i := range watches {
		running[i] = started(t, starting[i])
	}
	for i := range watches {
		put(t, cluster, fmt.Sprintf("k%d", i), 1)
	}
	for i, w := range running {
		resp, ok := next(t, w)
		require.True(t, ok)
		switch i % 10 {
		case 3:
			require.Equal(t, "mvcc: watcher range is empty", resp.CancelReason)
			require.ErrorContains(t, resp.Err(), resp.CancelReason)
			requireClosed(t, w)
		case 7:
			require.Equal(t, rpctypes.ErrCompacted, resp.Err())
			requireClosed(t, w)
		default:
			require.Equal(t, fmt.Sprintf("k%d", i), string(resp.Events[0].Kv.Key))
		}
	}
	require.Equal(t, 1, cluster.Count("Watch"))
}

// answerWhenQuiet serves watch streams: it answers creates when no more of them arrive. It returns
// how often it does.
func answerWhenQuiet(cluster *fakeetcd.Cluster, quiet time.Duration) *atomic.Int32 {
	rounds := new(atomic.Int32)
	cluster.On("Watch", func(call *fakeetcd.Call) {
		creates := createRequests(call)
		var waiting []*pb.WatchCreateRequest
		for {
			var answer <-chan time.Time
			if len(waiting) > 0 {
				answer = time.After(quiet)
			}
			select {
			case r, ok := <-creates:
				if !ok {
					return
				}
				waiting = append(waiting, r)
			case <-answer:
				rounds.Add(1)
				for _, r := range waiting {
					_ = call.Send(&pb.WatchResponse{Header: header(1), WatchId: r.WatchId, Created: true})
				}
				waiting = nil
			}
		}
	})
	return rounds
}

// createRequests reads the requests of a stream until it ends.
func createRequests(call *fakeetcd.Call) <-chan *pb.WatchCreateRequest {
	creates := make(chan *pb.WatchCreateRequest)
	go func() {
		defer close(creates)
		for {
			req, err := call.Recv()
			if err != nil {
				return
			}
			if create := req.(*pb.WatchRequest).GetCreateRequest(); create != nil {
				creates <- create
			}
		}
	}()
	return creates
}

// TestWatchCreatesArePipelined counts the rounds in which a server answers creates. If the client
// waited for each response, there would be as many rounds as watches.
func TestWatchCreatesArePipelined(t *testing.T) {
	const (
		watches   = 1000
		maxRounds = 20
	)
	cluster, c := clienttest.StartClient(t, 1)
	rounds := answerWhenQuiet(cluster, 100*time.Millisecond)
	ctx := clienttest.Within(t)
	var starting [watches]<-chan WatchChan
	for i := range watches {
		starting[i] = startWatch(ctx, c, fmt.Sprintf("k%d", i))
	}
	for _, s := range starting {
		started(t, s)
	}
	require.LessOrEqual(t, rounds.Load(), int32(maxRounds))
	require.NoError(t, c.Close())
}

// TestWatchThroughProxy creates many watches through a proxy that chooses the ids itself and answers creates in any
// order. Each watch receives its own events, also when the stream has been lost.
func TestWatchThroughProxy(t *testing.T) {
	const watches = 100
	cluster, c := clienttest.StartClient(t, 1)
	require.NoError(t, cluster.SetWatchOptions(fakeetcd.WatchOptions{Proxy: true}))
	ctx := clienttest.Within(t)
	var starting [watches]<-chan WatchChan
	for i := range watches {
		var opts []OpOption
		if i%10 == 3 {
			opts = append(opts, WithRev(-1))
		}
		starting[i] = startWatch(ctx, c, fmt.Sprintf("k%02d", i), opts...)
	}
	var running [watches]WatchChan
	for i, s := range starting {
		running[i] = started(t, s)
	}
	for round := range 3 {
		for i := range watches {
			put(t, cluster, fmt.Sprintf("k%02d", i), 1)
		}
		for i, w := range running {
			if i%10 == 3 {
				if round == 0 {
					requireEnd(t, w, rpctypes.ErrCompacted)
				}
				continue
			}
			resp, ok := next(t, w)
			require.True(t, ok)
			require.Len(t, resp.Events, 1)
			require.Equal(t, fmt.Sprintf("k%02d", i), string(resp.Events[0].Kv.Key))
			require.EqualValues(t, round+1, resp.Events[0].Kv.Version)
		}
		cluster.Member(0).BreakConnections()
	}
}

// TestWatchIDsAreNotReused cancels watches and creates others. No id is used twice on a stream.
func TestWatchIDsAreNotReused(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	c.Watch(clienttest.Within(t), "keeps the stream open")
	for range 20 {
		ctx, cancel := contextUntil(t)
		w := c.Watch(ctx, "k")
		cancel()
		requireClosed(t, w)
	}
	ids := make(map[int64]bool)
	for _, req := range cluster.Calls("Watch")[0].Requests {
		if r := req.(*pb.WatchRequest).GetCreateRequest(); r != nil {
			require.NotZero(t, r.WatchId, "the client chooses")
			require.False(t, ids[r.WatchId], "id %d", r.WatchId)
			ids[r.WatchId] = true
		}
	}
	require.Len(t, ids, 21)
	require.Equal(t, 1, cluster.Count("Watch"))
}

// TestWatchStreamsByMetadata shows that callers with different metadata do not share a stream.
func TestWatchStreamsByMetadata(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	for _, tenant := range []string{"a", "b", "a"} {
		c.Watch(metadata.AppendToOutgoingContext(clienttest.Within(t), "tenant", tenant), "k")
	}
	calls := cluster.Calls("Watch")
	require.Len(t, calls, 2)
	require.Equal(t, []string{"a"}, calls[0].Metadata.Get("tenant"))
	require.Equal(t, []string{"b"}, calls[1].Metadata.Get("tenant"))
}

// TestWatchAfterTokenExpiry invalidates all tokens during a watch. The watch continues, and a new
// one is created on another stream with one new token.
func TestWatchAfterTokenExpiry(t *testing.T) {
	cluster, admin := clienttest.StartClient(t, 1)
	enableAuth(t, admin)
	c := clienttest.Connect(t, cluster, Config{Username: "root", Password: "root"})

	old := c.Watch(clienttest.Within(t), "k")
	first := put(t, cluster, "k", 1)
	requireRevs(t, old, first, first)
	logins := cluster.Count("Authenticate")
	cluster.InvalidateTokens()

	var starting []<-chan WatchChan
	for range 10 {
		starting = append(starting, startWatch(clienttest.Within(t), c, "k", WithRev(first)))
	}
	for _, s := range starting {
		w := started(t, s)
		requireRevs(t, w, first, first)
	}
	require.Equal(t, logins+1, cluster.Count("Authenticate"))
	require.Equal(t, 2, cluster.Count("Watch"))

	cluster.InvalidateTokens()
	cluster.Member(0).BreakConnections()
	last := put(t, cluster, "k", 3)
	requireRevs(t, old, first+1, last)
}

func enableAuth(t *testing.T, c *Client) {
	t.Helper()
	ctx := clienttest.Within(t)
	_, err := c.UserAdd(ctx, "root", "root")
	require.NoError(t, err)
	_, err = c.RoleAdd(ctx, "root")
	require.NoError(t, err)
	_, err = c.UserGrantRole(ctx, "root", "root")
	require.NoError(t, err)
	_, err = c.AuthEnable(ctx)
	require.NoError(t, err)
}
