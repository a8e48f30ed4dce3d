package front_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/lab/link"
)

// perConnection is how many requests nginx takes on a connection before it sends a GOAWAY,
// without the announcement that would let requests on their way arrive.
const perConnection = 100

// retryPolicy repeats calls that a connection's end refused. It is for services whose calls
// may be executed twice.
const retryPolicy = `"methodConfig": [{"name": [{"service": "grpc.testing.TestService"}], "retryPolicy": {
	"maxAttempts": 5, "initialBackoff": "0.01s", "maxBackoff": "0.1s", "backoffMultiplier": 2,
	"retryableStatusCodes": ["UNAVAILABLE"]}}]`

// behindNginx returns two servers and a link to the nginx before them.
func behindNginx(t *testing.T, replacements ...string) ([]*server, *link.Link) {
	t.Helper()
	servers := startServers(t, 2)
	n := startNginx(t, documentedConfig(t, "grpc.conf", append([]string{
		"10.0.0.1:50051", servers[0].addr(), "10.0.0.2:50051", servers[1].addr(),
		"keepalive_requests 100000;", fmt.Sprintf("keepalive_requests %d;", perConnection),
	}, replacements...)...))
	toNginx, err := link.Listen(n.address)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, toNginx.Close()) })
	return servers, toNginx
}

// dial connects to nginx with a policy.
func dial(t *testing.T, toNginx *link.Link, policy, methodConfig string) *grpc.ClientConn {
	t.Helper()
	serviceConfig := fmt.Sprintf(`{"loadBalancingConfig": [{%q: {}}]}`, policy)
	if methodConfig != "" {
		serviceConfig = fmt.Sprintf(`{"loadBalancingConfig": [{%q: {}}], %s}`, policy, methodConfig)
	}
	conn, err := grpc.NewClient("passthrough:///"+toNginx.Addr(), grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithTransportCredentials(balancer.Credentials(insecure.NewCredentials())))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close()) })
	return conn
}

// While fewer calls are in flight than nginx takes on a connection, no call notices that
// connections are replaced all the time.
func TestCallsDoNotNoticeGOAWAYs(t *testing.T) {
	const callers, calls = 16, 12 * perConnection
	for _, policy := range []string{"quorate_round_robin", "pick_first"} {
		t.Run(policy, func(t *testing.T) {
			servers, toNginx := behindNginx(t)
			var s load
			s.run(dial(t, toNginx, policy, retryPolicy), callers, calls)
			assert.Empty(t, s.errors)
			assert.Empty(t, s.partial)
			assert.GreaterOrEqual(t, toNginx.Stats().Accepted, uint64(calls/perConnection), "connections are replaced")
			assert.Len(t, executed(servers), calls)
		})
	}
}

// When more calls are under way than a connection takes, some are refused by one connection
// and then by the next. grpc repeats a call by itself once.
func TestACallIsRefusedByTwoConnections(t *testing.T) {
	const callers, calls = 4 * perConnection, 16 * perConnection
	ctx, failed := within(t, testTimeout), 0
	for failed == 0 && !t.Failed() { // on a busy machine none may be
		t.Run("round", func(t *testing.T) {
			require.NoError(t, ctx.Err(), "no call failed")
			servers, toNginx := behindNginx(t)
			var s load
			s.run(dial(t, toNginx, "quorate_round_robin", ""), callers, calls)
			failed = len(s.errors)
			t.Logf("%d of %d calls failed", failed, calls)
			assert.Empty(t, s.partial)
			for _, err := range s.errors {
				assert.Equal(t, codes.Unavailable, status.Code(err))
				assert.Equal(t, "the connection is draining", status.Convert(err).Message())
			}
			times := executed(servers)
			assert.Len(t, times, len(s.ok), "no call that failed was executed")
			for payload := range s.ok {
				assert.Equal(t, 1, times[payload])
			}
		})
	}
}

type duplex = grpc.BidiStreamingClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]

// openDuplex opens a stream on which the server answers each message.
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
			_, toNginx := behindNginx(t, "client_max_body_size 0;", "client_max_body_size "+limit+";")
			stream := openDuplex(t, dial(t, toNginx, "quorate_round_robin", ""))
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
			_, toNginx := behindNginx(t, setting+" 60s;", setting+" 10s;") // longer than a busy machine takes for one exchange
			stream := openDuplex(t, dial(t, toNginx, "quorate_round_robin", ""))
			require.NoError(t, exchange(stream, 1))
			_, err := stream.Recv()
			assert.Equal(t, codes.Internal, status.Code(err), "%v", err)
		})
	}
}
