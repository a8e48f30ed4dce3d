package grpcpool_test

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// large is the size of a message in a stream: a little less than gRPC's maximum.
const large = 4_000_000

// mover answers small calls, and transfers large messages in both directions.
type mover struct {
	pb.UnimplementedTestServiceServer
}

// EmptyCall answers after the round trip of the link.
func (mover) EmptyCall(_ context.Context, in *pb.Empty) (*pb.Empty, error) {
	time.Sleep(2 * time.Millisecond)
	return in, nil
}

func (mover) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

func (mover) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, stream pb.TestService_StreamingOutputCallServer) error {
	message := &pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, large)}}
	for {
		if err := stream.Send(message); err != nil {
			return err
		}
	}
}

func upload(ctx context.Context, client pb.TestServiceClient) error {
	stream, err := client.StreamingInputCall(ctx)
	if err != nil {
		return err
	}
	message := &pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: make([]byte, large)}}
	for err == nil {
		err = stream.Send(message)
	}
	if err == io.EOF {
		_, err = stream.CloseAndRecv()
	}
	return err
}

func download(ctx context.Context, client pb.TestServiceClient) error {
	stream, err := client.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
	for err == nil {
		_, err = stream.Recv()
	}
	return err
}

// Small calls beside four streams of 4 MB messages, on a link of 60 MB/s and 2 ms. Over one
// connection they wait behind the messages; with a connection for each class they do not.
func TestSmallBesideLarge(t *testing.T) {
	idle := percentile99(t, dialOne, nil)
	for _, tt := range []struct {
		name string
		move func(context.Context, pb.TestServiceClient) error
	}{{"upload", upload}, {"download", download}} {
		t.Run(tt.name, func(t *testing.T) {
			one, pooled := percentile99(t, dialOne, tt.move), percentile99(t, dialPool, tt.move)
			t.Logf("p99: %v with the link idle, %v over one connection, %v over the pool", idle, one, pooled)
			assert.LessOrEqual(t, pooled, 2*idle)
			assert.Greater(t, one, 2*idle, "otherwise the test proves nothing")
		})
	}
}

// percentile99 returns the p99 of small calls beside large streams, or without streams if move is
// nil.
func percentile99(t *testing.T, dial dial, move func(context.Context, pb.TestServiceClient) error) (p99 time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		link := newWire()
		s := grpc.NewServer(grpc.WaitForHandlers(true))
		pb.RegisterTestServiceServer(s, mover{})
		go func() { _ = s.Serve(link) }()
		conn, err := dial(grpc.WithContextDialer(link.dial))
		require.NoError(t, err)
		client := pb.NewTestServiceClient(conn)

		ctx, cancel := context.WithCancel(t.Context())
		var streams sync.WaitGroup
		if move != nil {
			for range 4 {
				streams.Go(func() {
					if err := move(ctx, client); ctx.Err() == nil {
						assert.NoError(t, err)
					}
				})
			}
			time.Sleep(100 * time.Millisecond) // the streams fill all buffers
		}
		p99 = smallCalls(t, client)
		cancel()
		streams.Wait()
		require.NoError(t, conn.Close())
		s.Stop()
		synctest.Wait()
	})
	return p99
}

// smallCalls makes calls on a warm connection for 200 ms of virtual time.
func smallCalls(t *testing.T, client pb.TestServiceClient) (p99 time.Duration) {
	_, err := client.EmptyCall(t.Context(), &pb.Empty{})
	require.NoError(t, err)
	var mu sync.Mutex
	var took []time.Duration
	var callers sync.WaitGroup
	end := time.Now().Add(200 * time.Millisecond)
	for range 4 {
		callers.Go(func() {
			for begin := time.Now(); begin.Before(end); begin = time.Now() {
				_, err := client.EmptyCall(t.Context(), &pb.Empty{})
				assert.NoError(t, err)
				mu.Lock()
				took = append(took, time.Since(begin))
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	slices.Sort(took)
	return took[len(took)*99/100]
}
