package keepalive_test

import (
	"io"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/keepalive"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

func TestSizesAreBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		sizes keepalive.Sizes
		want  []string // parts of the error; none: valid
	}{
		"zero":                 {},
		"largest":              {sizes: keepalive.Sizes{MaxRequest: 64 * mib, MaxResponse: 64 * mib, StaticStreamWindow: 8 * mib, StaticConnWindow: 8 * mib, MaxConcurrentStreams: math.MaxUint32}},
		"smallest":             {sizes: keepalive.Sizes{MaxRequest: 1, MaxResponse: 1, StaticStreamWindow: 64 * kib, StaticConnWindow: 64 * kib, MaxConcurrentStreams: 1}},
		"request too large":    {sizes: keepalive.Sizes{MaxRequest: 64*mib + 1}, want: []string{"Sizes.MaxRequest: 67108865; it must be 1 to 67108864 bytes (64 MiB)"}},
		"response too large":   {sizes: keepalive.Sizes{MaxResponse: math.MaxInt32}, want: []string{"Sizes.MaxResponse: 2147483647"}},
		"negative":             {sizes: keepalive.Sizes{MaxResponse: -1}, want: []string{"Sizes.MaxResponse: -1"}},
		"window too large":     {sizes: keepalive.Sizes{StaticStreamWindow: 1 << 30, StaticConnWindow: 1 << 30}, want: []string{"Sizes.StaticStreamWindow: 1073741824; it must be 65536 to 8388608 bytes"}},
		"window too small":     {sizes: keepalive.Sizes{StaticStreamWindow: 64 * kib, StaticConnWindow: 1}, want: []string{"Sizes.StaticConnWindow: 1"}},
		"only one window":      {sizes: keepalive.Sizes{StaticStreamWindow: mib}, want: []string{"only one of StaticStreamWindow and StaticConnWindow is set"}},
		"window never used up": {sizes: keepalive.Sizes{StaticStreamWindow: 2 * mib, StaticConnWindow: mib}, want: []string{"StaticConnWindow: 1048576 is less than StaticStreamWindow, 2097152"}},
	} {
		t.Run(name, func(t *testing.T) { checkErrors(t, tc.sizes, tc.want...) })
	}
}

// echo answers UnaryCall with as many bytes as asked for, and counts.
func echo(executed *atomic.Int64) service {
	return service{unary: func(r *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
		executed.Add(1)
		return &testgrpc.SimpleResponse{Payload: &testgrpc.Payload{Body: make([]byte, r.GetResponseSize())}}, nil
	}}
}

// The default of 4 MiB holds in both directions.
func TestSenderRefusesAMessageThatIsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var executed atomic.Int64
		dial, server := options(t, keepalive.Sizes{MaxRequest: mib})
		conn := newPipeNet(0).serve(t, echo(&executed), dial, server)
		call := func(request, response int) error {
			_, err := testgrpc.NewTestServiceClient(conn).UnaryCall(t.Context(), &testgrpc.SimpleRequest{
				ResponseSize: int32(response),
				Payload:      &testgrpc.Payload{Body: make([]byte, request)},
			})
			return err
		}
		const room = 64 // for the rest of the message
		require.NoError(t, call(mib-room, 4*mib-room))
		require.Equal(t, int64(1), executed.Load())

		err := call(mib+1, 0)
		assert.Equal(t, codes.ResourceExhausted, status.Code(err))
		require.ErrorContains(t, err, "trying to send message larger than max")
		assert.Equal(t, int64(1), executed.Load(), "not executed")

		err = call(0, 4*mib+1)
		assert.Equal(t, codes.ResourceExhausted, status.Code(err))
		require.ErrorContains(t, err, "trying to send message larger than max", "it is the server that says so")
	})
}

// floodService sends as much as it may, up to total, and counts.
type floodService struct {
	testgrpc.UnimplementedTestServiceServer
	message, total int64
	accepted       atomic.Int64
}

func (s *floodService) StreamingOutputCall(_ *testgrpc.StreamingOutputCallRequest, stream testgrpc.TestService_StreamingOutputCallServer) error {
	m := &testgrpc.StreamingOutputCallResponse{Payload: &testgrpc.Payload{Body: make([]byte, s.message)}}
	for s.accepted.Load() < s.total {
		if err := stream.Send(m); err != nil {
			return err
		}
		s.accepted.Add(s.message)
	}
	return nil
}

// TestSlowReaderIsBounded lets a server send to a client that does not read. What the server has
// sent is in the memory of one of the two.
func TestSlowReaderIsBounded(t *testing.T) {
	const (
		message = 32 * kib
		// What the sender holds for a stream: 64 KiB that grpc-go lets wait, the
		// message that exceeds it, and the next.
		waiting = 64*kib + 2*message
	)
	for name, tc := range map[string]struct {
		sizes  keepalive.Sizes
		window int64
		warm   bool // a fast reader comes first, and makes grpc-go's windows grow
	}{
		"sized by grpc": {window: 16 * mib},
		"grown by grpc": {window: 16 * mib, warm: true},
		"64 KiB":        {sizes: keepalive.Sizes{StaticStreamWindow: 64 * kib, StaticConnWindow: 64 * kib}, window: 64 * kib},
		"1 MiB":         {sizes: keepalive.Sizes{StaticStreamWindow: mib, StaticConnWindow: 2 * mib}, window: mib},
		"8 MiB":         {sizes: keepalive.Sizes{StaticStreamWindow: 8 * mib, StaticConnWindow: 8 * mib}, window: 8 * mib},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			service := &floodService{message: message, total: 24 * mib}
			dial, server := options(t, tc.sizes)
			conn := newPipeNet(0).serve(t, service, dial, server)
			if tc.warm {
				readAll(t, conn)
				service.accepted.Store(0)
			}
			_, err := testgrpc.NewTestServiceClient(conn).StreamingOutputCall(t.Context(), &testgrpc.StreamingOutputCallRequest{})
			require.NoError(t, err)
			time.Sleep(time.Minute)
			accepted := service.accepted.Load()
			t.Logf("the server could send %d KiB", accepted/kib)
			least := int64(64 * kib)
			if tc.sizes.StaticStreamWindow > 0 {
				least = tc.window - message
			}
			assert.GreaterOrEqual(t, accepted, least)
			assert.LessOrEqual(t, accepted, tc.window+waiting)
		})
	}
}

func readAll(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	stream, err := testgrpc.NewTestServiceClient(conn).StreamingOutputCall(t.Context(), &testgrpc.StreamingOutputCallRequest{})
	require.NoError(t, err)
	for err == nil {
		_, err = stream.Recv()
	}
	require.ErrorIs(t, err, io.EOF)
}

// TestEstimatorStaysOn looks for the pings by which grpc-go measures the product of
// bandwidth and delay: they are there unless windows are fixed.
func TestEstimatorStaysOn(t *testing.T) {
	for want, sizes := range map[bool]keepalive.Sizes{
		true:  {MaxRequest: mib, MaxConcurrentStreams: 10},
		false: {StaticStreamWindow: mib, StaticConnWindow: mib},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPipeNet(10 * time.Millisecond)
			dial, server := options(t, sizes)
			conn := p.serve(t, echo(new(atomic.Int64)), dial, server)
			_, err := testgrpc.NewTestServiceClient(conn).UnaryCall(t.Context(), &testgrpc.SimpleRequest{
				ResponseSize: 32 * kib, Payload: &testgrpc.Payload{Body: make([]byte, 32*kib)},
			})
			require.NoError(t, err)
			time.Sleep(time.Second) // what is on its way arrives
			assert.Equal(t, want, len(p.toServer.all(framePing, "other")) > 0, "the client's pings")
			assert.Equal(t, want, len(p.fromSrv.all(framePing, "other")) > 0, "the server's pings")
		})
	}
}
