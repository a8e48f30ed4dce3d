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

const one = "192.0.2.1:2379"

func TestWatches(t *testing.T) {
	w := NewWatches()
	to, err := net.ResolveTCPAddr("tcp", one)
	require.NoError(t, err)
	conn := w.TagConn(t.Context(), &stats.ConnTagInfo{RemoteAddr: to})
	w.HandleConn(conn, &stats.ConnBegin{})
	stream := w.TagRPC(t.Context(), &stats.RPCTagInfo{FullMethodName: pb.Watch_Watch_FullMethodName})
	w.HandleRPC(stream, &stats.OutHeader{RemoteAddr: to})
	at := func(second int64) time.Time { return time.Unix(100+second, 0) }
	receive := func(ctx context.Context, second int64, resp *pb.WatchResponse) {
		w.HandleRPC(ctx, &stats.InPayload{Payload: resp, RecvTime: at(second)})
	}
	receive(stream, 0, &pb.WatchResponse{Created: true})
	receive(stream, 1, &pb.WatchResponse{Created: true, Canceled: true})
	receive(stream, 1, &pb.WatchResponse{})
	receive(t.Context(), 1, &pb.WatchResponse{Created: true})
	receive(stream, 2, &pb.WatchResponse{Created: true})
	created := func(e Event) bool { return e.What == WatchCreated && e.Address == one }
	second, err := w.Await(t.Context(), 2, created)
	require.NoError(t, err)
	assert.Equal(t, at(2), second, "refused watches, other responses and other streams do not count")

	third := make(chan time.Time)
	go func() {
		at, _ := w.Await(t.Context(), 3, created)
		third <- at
	}()
	w.HandleConn(conn, &stats.ConnEnd{})
	receive(stream, 3, &pb.WatchResponse{Created: true})
	assert.Equal(t, at(3), <-third)
	for _, what := range []What{ConnBegun, ConnEnded} {
		_, err := w.Await(t.Context(), 1, func(e Event) bool { return e.What == what && e.Address == one })
		require.NoError(t, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.Await(ended, 4, created)
	require.ErrorIs(t, err, context.Canceled)
	assert.ErrorContains(t, err, "3 of 4 events")
}
