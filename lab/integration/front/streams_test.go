package front_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

type duplex = grpc.BidiStreamingClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]

// openDuplex returns a stream on which as much is said as is asked for.
func openDuplex(t *testing.T, conn *grpc.ClientConn) duplex {
	t.Helper()
	stream, err := pb.NewTestServiceClient(conn).FullDuplexCall(within(t, testTimeout))
	require.NoError(t, err)
	return stream
}

// exchange sends bytes and waits until they are back.
func exchange(stream duplex, bytes int) error {
	req := &pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: make([]byte, bytes)}}
	if err := stream.Send(req); err != nil {
		_, err = stream.Recv() // which says why
		return err
	}
	_, err := stream.Recv()
	return err
}

// A limit of nginx for bodies counts all that the client ever sent on a stream.
func TestAStreamIsABody(t *testing.T) {
	const chunk, chunks = 64 << 10, 20
	for limit, want := range map[string]codes.Code{"0": codes.OK, "1m": codes.Internal} {
		t.Run(limit, func(t *testing.T) {
			_, way := behindNginx(t, "client_max_body_size 0;", "client_max_body_size "+limit+";")
			stream := openDuplex(t, dial(t, "passthrough:///"+way.Addr(), "quorate_round_robin", ""))
			var err error
			for n := 0; n < chunks && err == nil; n++ {
				err = exchange(stream, chunk)
			}
			assert.Equal(t, want, status.Code(err), "%v", err)
		})
	}
}

// Either side's silence ends a stream, whatever the other says.
func TestSilenceEndsAStream(t *testing.T) {
	for _, setting := range []string{"client_body_timeout", "grpc_read_timeout"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			_, way := behindNginx(t, setting+" 60s;", setting+" 3s;") // longer than a busy machine takes for one exchange
			stream := openDuplex(t, dial(t, "passthrough:///"+way.Addr(), "quorate_round_robin", ""))
			require.NoError(t, exchange(stream, 1))
			_, err := stream.Recv()
			assert.Equal(t, codes.Internal, status.Code(err), "%v", err)
		})
	}
}
