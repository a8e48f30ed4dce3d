package wire

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestStream reads two streams side by side, one of them without the option.
func TestStream(t *testing.T) {
	cluster, err := fakeetcd.Start(1)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	conn, err := cluster.Member(0).Dial()
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })

	client := pb.NewWatchClient(conn)
	plain, err := client.Watch(within(t))
	require.NoError(t, err)
	lean, err := client.Watch(within(t), WatchCodec())
	require.NoError(t, err)
	send := func(r *pb.WatchRequest) {
		require.NoError(t, plain.Send(r))
		require.NoError(t, lean.Send(r))
	}
	receive := func() *pb.WatchResponse {
		want, err := plain.Recv()
		require.NoError(t, err)
		got, err := lean.Recv()
		require.NoError(t, err)
		assertSameResponse(t, want, got)
		return got
	}

	send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: []byte("k"), RangeEnd: []byte("l"), PrevKv: true},
	}})
	assert.True(t, receive().Created)
	for _, value := range []string{"one", "two", ""} {
		_, err = cluster.Put("key-1", value)
		require.NoError(t, err)
		ev := receive().Events[0]
		assert.Equal(t, value, string(ev.Kv.Value))
		assert.Equal(t, len(ev.Kv.Key), cap(ev.Kv.Key), "of a stream with the option")
	}
	_, err = pb.NewKVClient(conn).DeleteRange(within(t), &pb.DeleteRangeRequest{Key: []byte("key-1")})
	require.NoError(t, err)
	assert.NotNil(t, receive().Events[0].PrevKv)

	send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
	assert.EqualValues(t, -1, receive().WatchId)
	send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{}}})
	assert.True(t, receive().Canceled)
}

// watchServer is a Watch service of one function.
type watchServer struct {
	pb.UnimplementedWatchServer
	watch func(pb.Watch_WatchServer) error
}

func (s watchServer) Watch(stream pb.Watch_WatchServer) error { return s.watch(stream) }

// serveWatch returns a client of a server with the Watch service.
func serveWatch(t *testing.T, watch func(pb.Watch_WatchServer) error, opts ...grpc.ServerOption) pb.WatchClient {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(opts...)
	pb.RegisterWatchServer(server, watchServer{watch: watch})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///watch", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		assert.NoError(t, <-served)
	})
	return pb.NewWatchClient(conn)
}

// TestContentSubtype: the stream is what a server that insists on protobuf wants.
func TestContentSubtype(t *testing.T) {
	client := serveWatch(t, func(stream pb.Watch_WatchServer) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		if got := md.Get("content-type"); len(got) != 1 || got[0] != "application/grpc+proto" {
			return status.Errorf(codes.InvalidArgument, "content-type %q", got)
		}
		return stream.Send(&pb.WatchResponse{WatchId: 3, Created: true})
	})
	stream, err := client.Watch(within(t), WatchCodec())
	require.NoError(t, err)
	m, err := stream.Recv()
	require.NoError(t, err)
	assert.EqualValues(t, 3, m.WatchId)

	stream, err = client.Watch(within(t))
	require.NoError(t, err)
	_, err = stream.Recv()
	assert.Equal(t, codes.InvalidArgument, status.Code(err), "the server checks: %v", err)
}

// rawCodec sends the same bytes for every message.
type rawCodec struct {
	encoding.CodecV2
	data []byte
}

func (c rawCodec) Marshal(any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(c.data)}, nil
}

// TestStreamErrors: what cannot be decoded breaks the stream with the error that
// it has without the option.
func TestStreamErrors(t *testing.T) {
	for name, data := range map[string][]byte{
		"truncated":               {responseEvents, 9, 1},
		"cancel_reason not UTF-8": text(6, "\xff"),
	} {
		t.Run(name, func(t *testing.T) {
			codec := rawCodec{encoding.GetCodecV2(protocodec.Name), data}
			client := serveWatch(t, func(stream pb.Watch_WatchServer) error {
				return stream.Send(new(pb.WatchResponse))
			}, grpc.ForceServerCodecV2(codec))
			receive := func(opts ...grpc.CallOption) error {
				stream, err := client.Watch(within(t), opts...)
				require.NoError(t, err)
				_, err = stream.Recv()
				return err
			}
			want := receive()
			require.Equal(t, codes.Internal, status.Code(want), "%v", want)
			got := receive(WatchCodec())
			assert.Equal(t, codes.Internal, status.Code(got))
			assert.EqualError(t, got, want.Error())
		})
	}
}

// TestCodecOfCaller: a codec that follows the option replaces it.
func TestCodecOfCaller(t *testing.T) {
	client := serveWatch(t, func(stream pb.Watch_WatchServer) error { return stream.Send(new(pb.WatchResponse)) })
	stream, err := client.Watch(within(t), WatchCodec(), grpc.ForceCodecV2(refusingCodec{watchCodec()}))
	require.NoError(t, err)
	_, err = stream.Recv()
	assert.ErrorContains(t, err, errRefused.Error())
}

var errRefused = errors.New("refused by the caller's codec")

type refusingCodec struct{ encoding.CodecV2 }

func (refusingCodec) Unmarshal(mem.BufferSlice, any) error { return errRefused }
