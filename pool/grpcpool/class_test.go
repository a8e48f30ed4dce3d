package grpcpool_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/pool/grpcpool"
)

// A call counts in its class.
func TestClassOf(t *testing.T) {
	small := &pb.SimpleRequest{}
	large := &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, grpcpool.DefaultBulkBytes)}}
	listed := map[string]grpcpool.Class{
		pb.TestService_UnaryCall_FullMethodName:      grpcpool.Bulk,
		"/grpc.testing.TestService/":                 grpcpool.Streams,
		pb.TestService_FullDuplexCall_FullMethodName: grpcpool.Unary,
	}
	unary := func(in *pb.SimpleRequest, opts ...grpc.CallOption) func(*testing.T, pb.TestServiceClient) {
		return func(t *testing.T, client pb.TestServiceClient) {
			_, err := client.UnaryCall(t.Context(), in, opts...)
			require.NoError(t, err)
		}
	}
	empty := func(t *testing.T, client pb.TestServiceClient) { require.NoError(t, emptyCall(t, client)()) }
	stream := func(opts ...grpc.CallOption) func(*testing.T, pb.TestServiceClient) {
		return func(t *testing.T, client pb.TestServiceClient) {
			stream, err := client.FullDuplexCall(t.Context(), opts...)
			require.NoError(t, err)
			finish(t, stream)
		}
	}
	for _, tt := range []struct {
		name   string
		config grpcpool.Config
		call   func(*testing.T, pb.TestServiceClient)
		want   grpcpool.Class
	}{
		{"small unary", grpcpool.Config{}, unary(small), grpcpool.Unary},
		{"large unary", grpcpool.Config{}, unary(large), grpcpool.Bulk},
		{"larger than the configured size", grpcpool.Config{BulkBytes: 100}, unary(&pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 100)}}), grpcpool.Bulk},
		{"negative size", grpcpool.Config{BulkBytes: -1}, unary(large), grpcpool.Unary},
		{"stream", grpcpool.Config{}, stream(), grpcpool.Streams},
		{"option", grpcpool.Config{}, unary(small, grpcpool.UseClass(grpcpool.Bulk)), grpcpool.Bulk},
		{"the last option", grpcpool.Config{}, unary(small, grpcpool.UseClass(grpcpool.Bulk), grpcpool.UseClass(grpcpool.Streams)), grpcpool.Streams},
		{"option of a stream", grpcpool.Config{}, stream(grpcpool.UseClass(grpcpool.Bulk)), grpcpool.Bulk},
		{"option before method", grpcpool.Config{Methods: listed}, unary(small, grpcpool.UseClass(grpcpool.Unary)), grpcpool.Unary},
		{"method", grpcpool.Config{Methods: listed}, unary(small), grpcpool.Bulk},
		{"service", grpcpool.Config{Methods: listed}, empty, grpcpool.Streams},
		{"method before service, of a stream", grpcpool.Config{Methods: listed}, stream(), grpcpool.Unary},
		{"method before size", grpcpool.Config{Methods: map[string]grpcpool.Class{pb.TestService_UnaryCall_FullMethodName: grpcpool.Unary}}, unary(large), grpcpool.Unary},
		{"another service", grpcpool.Config{Methods: map[string]grpcpool.Class{"/grpc.testing.Other/": grpcpool.Bulk}}, unary(small), grpcpool.Unary},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, client := open(t, startServer(t), tt.config)
			tt.call(t, client)
			stats := conn.Stats()
			got := map[grpcpool.Class]uint64{
				grpcpool.Unary: stats.Unary.Calls, grpcpool.Bulk: stats.Bulk.Calls, grpcpool.Streams: stats.Streams.Calls,
			}
			assert.EqualValues(t, 1, got[tt.want], "%v, want %s", got, tt.want)
			assert.EqualValues(t, 1, stats.Unary.Calls+stats.Bulk.Calls+stats.Streams.Calls)
		})
	}
}

// Each class has its own connections, and an unused one has none.
func TestClassesHaveConnectionsOfTheirOwn(t *testing.T) {
	s := startServer(t)
	conn, client := open(t, s, grpcpool.Config{})
	require.NoError(t, emptyCall(t, client)())
	assert.Equal(t, 1, s.lis.accepted())
	assert.Empty(t, conn.Stats().Streams.Connections)

	finish(t, openEcho(t, t.Context(), client))
	assert.Equal(t, 2, s.connections())
	require.NoError(t, emptyCall(t, client, grpcpool.UseClass(grpcpool.Bulk))())
	assert.Equal(t, 3, s.connections())
	assert.Equal(t, 3, s.lis.accepted())
}

func TestNoSuchClass(t *testing.T) {
	_, client := open(t, startServer(t), grpcpool.Config{})
	err := emptyCall(t, client, grpcpool.UseClass(9))()
	assert.Equal(t, codes.InvalidArgument, status.Code(err))
	assert.ErrorContains(t, err, "there is no class 9; use Unary, Bulk or Streams")
	_, err = client.FullDuplexCall(t.Context(), grpcpool.UseClass(3))
	assert.Equal(t, codes.InvalidArgument, status.Code(err))
}
