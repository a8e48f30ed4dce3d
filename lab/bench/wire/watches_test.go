package wire

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/stats"
)

const (
	one = "192.0.2.1:2379"
	two = "192.0.2.2:2379"
)

func address(t *testing.T, s string) net.Addr {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", s)
	require.NoError(t, err)
	return a
}

// stream begins a stream of watches to an address and creates n watches there, the
// first at the given time and each a second after the one before.
func stream(t *testing.T, w *Watches, to string, n int, at time.Time) context.Context {
	t.Helper()
	ctx := w.TagRPC(t.Context(), &stats.RPCTagInfo{FullMethodName: pb.Watch_Watch_FullMethodName})
	w.HandleRPC(ctx, &stats.OutHeader{RemoteAddr: address(t, to)})
	for i := range n {
		w.HandleRPC(ctx, &stats.InPayload{
			Payload: &pb.WatchResponse{Created: true}, RecvTime: at.Add(time.Duration(i) * time.Second),
		})
	}
	return ctx
}

func TestWatchesBusiest(t *testing.T) {
	w := NewWatches()
	_, _, err := w.Busiest()
	require.EqualError(t, err, "no watch has been created")

	start := time.Unix(0, 0)
	stream(t, w, one, 2, start)
	other := stream(t, w, two, 3, start)
	where, n, err := w.Busiest()
	require.NoError(t, err)
	assert.Equal(t, two, where)
	assert.Equal(t, 3, n)

	stream(t, w, one, 2, start)
	where, n, err = w.Busiest()
	require.NoError(t, err)
	assert.Equal(t, one, where, "streams to one member count together")
	assert.Equal(t, 4, n)

	for range 3 {
		stream(t, w, two, 1, start)
	}
	w.HandleRPC(other, &stats.End{})
	where, _, err = w.Busiest()
	require.NoError(t, err)
	assert.Equal(t, one, where, "a stream that has ended does not count")
}

func TestWatchesAwaitCreatedElsewhere(t *testing.T) {
	w := NewWatches()
	start := time.Unix(100, 0)
	ctx := stream(t, w, one, 4, start) // at 0 to 3 s
	w.HandleRPC(ctx, &stats.InPayload{Payload: &pb.WatchResponse{Created: true, Canceled: true}, RecvTime: start.Add(time.Hour)})
	w.HandleRPC(ctx, &stats.InPayload{Payload: &pb.WatchResponse{}, RecvTime: start.Add(time.Hour)})
	w.HandleRPC(t.Context(), &stats.InPayload{Payload: &pb.WatchResponse{Created: true}, RecvTime: start.Add(time.Hour)})
	assert.Len(t, w.created, 4, "refused watches, other responses and other streams do not count")

	at, err := w.AwaitCreatedElsewhere(t.Context(), two, start, 2)
	require.NoError(t, err)
	assert.Equal(t, start.Add(time.Second), at)
	at, err = w.AwaitCreatedElsewhere(t.Context(), two, start.Add(time.Second), 2)
	require.NoError(t, err)
	assert.Equal(t, start.Add(2*time.Second), at, "those before do not count")

	later := make(chan time.Time)
	go func() {
		at, _ := w.AwaitCreatedElsewhere(t.Context(), one, start, 2)
		later <- at
	}()
	stream(t, w, two, 1, start.Add(time.Minute))
	stream(t, w, one, 1, start.Add(time.Hour)) // here and not elsewhere
	stream(t, w, two, 1, start.Add(2*time.Minute))
	assert.Equal(t, start.Add(2*time.Minute), <-later)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.AwaitCreatedElsewhere(ended, one, start, 3)
	require.ErrorIs(t, err, context.Canceled)
	assert.ErrorContains(t, err, "2 of 3 watches were created elsewhere than at "+one)
}

func TestWatchesConnections(t *testing.T) {
	w := NewWatches()
	conn := func(to string) context.Context {
		return w.TagConn(t.Context(), &stats.ConnTagInfo{RemoteAddr: address(t, to)})
	}
	first, second := conn(one), conn(one)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w.HandleConn(first, &stats.ConnBegin{})
	w.HandleConn(second, &stats.ConnBegin{})
	require.NoError(t, w.AwaitConnected(t.Context(), 1))
	require.ErrorIs(t, w.AwaitConnected(ended, 2), context.Canceled)
	_, err := w.AwaitLost(ended, one, time.Time{})
	require.ErrorIs(t, err, context.Canceled)

	w.HandleConn(first, &stats.ConnEnd{})
	at, err := w.AwaitLost(t.Context(), one, time.Time{})
	require.NoError(t, err)
	w.HandleConn(second, &stats.ConnEnd{})
	again, err := w.AwaitLost(t.Context(), one, at)
	require.NoError(t, err)
	assert.Equal(t, at, again, "the first connection to end counts")
	later, err := w.AwaitLost(t.Context(), one, at.Add(1))
	require.NoError(t, err)
	assert.True(t, later.After(at), "an end before does not count")
	_, err = w.AwaitLost(ended, one, later.Add(1))
	require.ErrorIs(t, err, context.Canceled)
	_, err = w.AwaitLost(ended, two, time.Time{})
	require.ErrorIs(t, err, context.Canceled)
}
