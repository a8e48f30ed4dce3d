package quorate_test

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/keepalive"
)

// pausesOf keeps n streams open for a while, and returns the longest pause between two messages of one, and the
// errors with which streams ended.
func pausesOf(t *testing.T, n int, length time.Duration, client testgrpc.TestServiceClient, open func(context.Context, testgrpc.TestServiceClient) (receive func() error, err error)) (longest time.Duration, ended []error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(length, cancel)
	var mu sync.Mutex
	var work sync.WaitGroup
	for range n {
		work.Go(func() {
			latest := time.Now()
			for ctx.Err() == nil {
				receive, err := open(ctx, client)
				for err == nil {
					if err = receive(); err == nil {
						mu.Lock()
						longest = max(longest, time.Since(latest))
						mu.Unlock()
						latest = time.Now()
					}
				}
				if ctx.Err() == nil {
					mu.Lock()
					ended = append(ended, err)
					mu.Unlock()
				}
			}
		})
	}
	work.Wait()
	return longest, ended
}

func TestStreamsLeaveAFrozenBackend(t *testing.T) {
	for name, open := range map[string]func(context.Context, testgrpc.TestServiceClient) (receive func() error, err error){
		"server streams": func(ctx context.Context, client testgrpc.TestServiceClient) (func() error, error) {
			s, err := client.StreamingOutputCall(ctx, &testgrpc.StreamingOutputCallRequest{})
			return func() error { _, err := s.Recv(); return err }, err
		},
		"bidirectional streams": func(ctx context.Context, client testgrpc.TestServiceClient) (func() error, error) {
			s, err := client.FullDuplexCall(ctx)
			return func() error {
				time.Sleep(100 * time.Millisecond)
				if err := s.Send(&testgrpc.StreamingOutputCallRequest{}); err != nil && err != io.EOF {
					return err
				}
				_, err := s.Recv()
				return err
			}, err
		},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			backends, client, stop := serve(t, over(t, quorate.Channel{}))
			defer stop()
			load(t, 3, time.Second, reads(client))
			time.AfterFunc(10*time.Second, backends[0].freeze)
			longest, ended := pausesOf(t, 9, 20*time.Second, client, open)
			t.Logf("longest pause %v, %d ended: %v", longest, len(ended), ended)
			assert.LessOrEqual(t, longest, 1200*time.Millisecond)
			assert.Len(t, ended, 3, "those of the frozen backend")
			for _, err := range ended {
				assert.Equal(t, codes.Unavailable, status.Code(err))
				assert.ErrorContains(t, err, "endpoint 10.0.0.1:80 is")
			}
		})
	}
}

// A stream that only sends has no pace. It is checked when the backend stops to take messages.
func TestAnUploadLeavesAFrozenBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backends, client, stop := serve(t, over(t, quorate.Channel{}))
		defer stop()
		load(t, 3, time.Second, reads(client))
		var work sync.WaitGroup
		var ended, slow atomic.Int64
		for range 3 {
			s, err := client.StreamingInputCall(t.Context())
			require.NoError(t, err)
			work.Go(func() {
				message := &testgrpc.StreamingInputCallRequest{Payload: &testgrpc.Payload{Body: make([]byte, 32<<10)}}
				for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
					began := time.Now()
					if err := s.Send(message); err != nil {
						_, err := s.CloseAndRecv()
						assert.Equal(t, codes.Unavailable, status.Code(err), err)
						assert.LessOrEqual(t, time.Since(began), 1200*time.Millisecond)
						ended.Add(1)
						return
					}
					slow.Add(int64(time.Since(began) / time.Second))
				}
				_, err := s.CloseAndRecv()
				assert.NoError(t, err)
			})
		}
		time.Sleep(5 * time.Second)
		backends[0].freeze()
		work.Wait()
		assert.EqualValues(t, 1, ended.Load(), "that of the frozen backend")
		assert.Zero(t, slow.Load())
	})
}

func TestStreamsEndWithUnavailableAtTheEndOfADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := repeatable
		c.DrainTimeout = 2 * time.Second
		names := manual.NewBuilderWithScheme("static")
		names.InitialState(listOf("10.0.0.1:80", "10.0.0.2:80"))
		backends, client, stop := serve(t, func(_ string, _ resolver.Builder, dialer grpc.DialOption) (closer, error) {
			return over(t, c)("static:///x", names, dialer)
		})
		defer stop()
		load(t, 2, time.Second, reads(client))
		for _, b := range backends {
			b.pause.Store(int64(10 * time.Second))
		}
		calls, streams := make(chan error, 4), make(chan error, 4)
		for range cap(calls) {
			go func() { calls <- reads(client)(t.Context()) }()
			s, err := client.StreamingOutputCall(t.Context(), &testgrpc.StreamingOutputCallRequest{})
			require.NoError(t, err)
			go func() {
				var err error
				for err == nil {
					_, err = s.Recv()
				}
				streams <- err
			}()
		}
		time.Sleep(time.Second)
		names.UpdateState(listOf("10.0.0.2:80"))
		assert.Equal(t, codes.Unavailable, status.Code(<-streams))
		for range cap(calls) {
			assert.NoError(t, <-calls)
		}
	})
}

func TestAStreamThatIsOpenedAgainGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorate.Channel{Calls: keepalive.Calls{Base: `{"methodConfig":[{"name":[{"service":"grpc.testing.TestService","method":"StreamingInputCall"}],
			"retryPolicy":{"maxAttempts":5,"initialBackoff":"0.05s","maxBackoff":"0.1s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`}}
		names := manual.NewBuilderWithScheme("static")
		names.InitialState(listOf("10.0.0.1:80"))
		var backends []*backend
		var conns []net.Conn
		started, client, stop := serve(t, func(string, resolver.Builder, grpc.DialOption) (closer, error) {
			return over(t, c)("static:///x", names, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				conn, err := backends[0].DialContext(ctx)
				conns = append(conns, conn)
				return conn, err
			}))
		})
		backends = started
		defer stop()
		load(t, 1, time.Second, reads(client))
		s, err := client.StreamingInputCall(t.Context())
		require.NoError(t, err)
		require.NoError(t, s.Send(&testgrpc.StreamingInputCallRequest{}))
		synctest.Wait()
		require.NoError(t, conns[0].Close())
		for range 30 {
			require.NoError(t, s.Send(&testgrpc.StreamingInputCallRequest{}))
			time.Sleep(50 * time.Millisecond)
		}
		_, err = s.CloseAndRecv()
		require.NoError(t, err)
	})
}

// failingHeader is a stream of an interceptor whose Header fails.
type failingHeader struct{ grpc.ClientStream }

func (failingHeader) Header() (metadata.MD, error) { return nil, io.ErrUnexpectedEOF }

// An interceptor may open the stream again. The context that it gets ends with the stream, by gRPC's rules.
func TestInterceptorsMayOpenAStreamAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inner context.Context
		again := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			inner = ctx //nolint:fatcontext // the test looks at it
			expired, cancel := context.WithCancel(ctx)
			cancel()
			_, err := open(expired, desc, cc, method, opts...)
			require.Error(t, err)
			s, err := open(ctx, desc, cc, method, opts...)
			return failingHeader{s}, err
		}
		_, client, stop := serve(t, over(t, quorate.Channel{}, grpc.WithChainStreamInterceptor(again)))
		defer stop()
		upload, err := client.StreamingInputCall(t.Context())
		require.NoError(t, err)
		require.NoError(t, inner.Err())
		_, err = upload.CloseAndRecv()
		require.NoError(t, err)
		require.Error(t, inner.Err(), "the response has arrived")
		open := func() testgrpc.TestService_FullDuplexCallClient {
			s, err := client.FullDuplexCall(t.Context(), grpc.MaxCallSendMsgSize(0))
			require.NoError(t, err)
			require.NoError(t, inner.Err())
			return s
		}
		s := open()
		require.NoError(t, s.CloseSend())
		_, err = s.Recv()
		require.Equal(t, io.EOF, err)
		require.Error(t, inner.Err(), "the stream has ended")
		require.Error(t, open().Send(&testgrpc.StreamingOutputCallRequest{ResponseType: 1}))
		require.Error(t, inner.Err(), "the message is too large")
		_, err = open().Header()
		require.Equal(t, io.ErrUnexpectedEOF, err)
		require.Error(t, inner.Err(), "there is no header")
	})
}
