package channel

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/grpctest"
)

// watch opens a stream and receives its first response.
func watch(ctx context.Context, conn grpc.ClientConnInterface) (pb.Watch_WatchClient, error) {
	ws, err := pb.NewWatchClient(conn).Watch(ctx, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	return ws, answer(ws)
}

func answer(ws pb.Watch_WatchClient) error {
	create := &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}
	if err := ws.Send(&pb.WatchRequest{RequestUnion: create}); err != nil {
		_, err = ws.Recv()
		return err
	}
	_, err := ws.Recv()
	return err
}

// servedBy returns the endpoint of a stream.
func servedBy(t *testing.T, ws pb.Watch_WatchClient) string {
	t.Helper()
	p, ok := peer.FromContext(ws.Context())
	require.True(t, ok)
	return "http://" + p.Addr.String()
}

func withDeadline(t *testing.T) context.Context {
	t.Helper()
	return grpctest.Within(t, 10*time.Second)
}

func await(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-withDeadline(t).Done():
		t.Fatal("waited for 10 s")
	}
}

func watchRetrier(c *Channel) *Retrier {
	return c.Streams().Retrier(pb.Watch_Watch_FullMethodName).Endless()
}

func TestStreamsShareTheConnectionOfCalls(t *testing.T) {
	m := startMember(t, "http://", nil)
	m.accepts = func(token string) bool { return token == "alice-1" }
	var opened atomic.Int32
	c := newTestChannel(t, Config{
		Endpoints: []string{m.endpoint},
		Login:     func() Login { return Login{Username: "alice", Password: "secret"} },
		DialOptions: []grpc.DialOption{grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			opened.Add(1)
			return streamer(ctx, desc, cc, method, opts...)
		})},
	})
	require.NoError(t, get(t, c))
	require.NoError(t, get(t, c))
	assert.EqualValues(t, 1, m.accepted.Load())

	ctx := withDeadline(t)
	for range 3 {
		must(watch(ctx, c.Streams()))
	}
	require.NoError(t, get(t, c))
	assert.EqualValues(t, 1, m.accepted.Load())
	assert.Equal(t, 1, m.connections())
	assert.Equal(t, 1, m.authenticates, "one token for both")
	assert.EqualValues(t, 3, opened.Load(), "the user's options apply to both")
}

func TestSetEndpointsMovesStreams(t *testing.T) {
	a, b := startMember(t, "http://", nil), startMember(t, "http://", nil)
	c := newTestChannel(t, Config{Endpoints: []string{a.endpoint}})
	ctx, retrier := withDeadline(t), watchRetrier(c)
	onA := must(watch(ctx, retrier))
	require.Equal(t, a.endpoint, servedBy(t, onA))
	removed := retrier.Removed()

	c.SetEndpoints([]string{b.endpoint, a.endpoint})
	require.Eventually(t, func() bool { return get(t, c) == nil && b.connections() > 0 }, 30*time.Second, time.Millisecond)
	select {
	case <-removed:
		t.Fatal("a is still an endpoint")
	default:
	}

	c.SetEndpoints([]string{b.endpoint})
	await(t, removed)
	require.NoError(t, answer(onA), "the owner leaves the stream later")
	onB := must(watch(ctx, retrier))
	assert.Equal(t, b.endpoint, servedBy(t, onB))

	removed = retrier.Removed()
	c.SetEndpoints(nil)
	await(t, removed)
}

func TestStreamAvoidsTheFailedMember(t *testing.T) {
	a, b := startMember(t, "http://", nil), startMember(t, "http://", nil)
	c := newTestChannel(t, Config{Endpoints: []string{a.endpoint, b.endpoint}})
	require.Eventually(t, func() bool {
		require.NoError(t, get(t, c))
		return a.connections() > 0 && b.connections() > 0
	}, 30*time.Second, time.Millisecond)
	ctx := grpctest.Within(t, time.Minute)
	for range 20 {
		retrier := watchRetrier(c)
		var last string
		for _, avoids := range []bool{false, true, false} {
			ws := must(watch(ctx, retrier))
			if avoids {
				assert.NotEqual(t, last, servedBy(t, ws))
			}
			last = servedBy(t, ws)
			c.Streams().budget.Refund()
			require.NoError(t, retrier.Next(ctx, errGone))
		}
	}
}

// A failed endpoint is better than one that is still connecting.
func TestStreamDoesNotWaitForAConnectingEndpoint(t *testing.T) {
	m := startMember(t, "http://", nil)
	silent := must(net.Listen("tcp", "127.0.0.1:0")) // accepts, and says nothing
	defer silent.Close()
	c := newTestChannel(t, Config{Endpoints: []string{m.endpoint, silent.Addr().String()}})
	ctx, retrier := withDeadline(t), watchRetrier(c) // it ends before the connection attempt does
	for range 3 {
		ws := must(watch(ctx, retrier))
		require.Equal(t, m.endpoint, servedBy(t, ws))
		require.NoError(t, retrier.Next(ctx, rpctypes.ErrGRPCNoLeader))
		require.False(t, retrier.Leaderless(), "the other may have a leader")
	}
}

func TestCloseEndsStreams(t *testing.T) {
	m := startMember(t, "http://", nil)
	c := newTestChannel(t, Config{Endpoints: []string{m.endpoint}})
	ctx, retrier := withDeadline(t), watchRetrier(c)
	ws := must(watch(ctx, retrier))
	removed := retrier.Removed()
	require.NoError(t, c.Close())
	await(t, removed)
	_, err := ws.Recv()
	assert.Equal(t, codes.Canceled, status.Code(err))
	assert.Equal(t, err, retrier.Next(ctx, err), "there is nothing to open it over")
	_, err = watch(ctx, c.Streams())
	assert.Equal(t, ErrClosed, err)
	assert.Equal(t, ErrClosed, get(t, c.Streams()))
}

// A stream that is always refused must not slow down calls, nor calls the stream; and progress
// earns retries.
func TestStreamsHaveTheirOwnBudget(t *testing.T) {
	c := newTestChannel(t, Config{Endpoints: []string{"127.0.0.1:1"}})
	for c.Streams().budget.Take() {
	}
	assert.True(t, c.budget.Take())
	retrier := watchRetrier(c)
	for range 10 {
		retrier.Progress()
	}
	assert.True(t, c.Streams().budget.Take())
}

func TestStreamsEndWithTheUsersConnection(t *testing.T) {
	c := newTestChannel(t, Config{Endpoints: []string{startMember(t, "http://", nil).endpoint}})
	ws := must(watch(withDeadline(t), c.Streams()))
	require.NoError(t, c.Conn().Close())
	_, err := ws.Recv()
	require.Equal(t, codes.Canceled, status.Code(err), "%v", err)
	_, err = watch(withDeadline(t), c.Streams())
	require.Equal(t, codes.Canceled, status.Code(err), "%v", err)
}
