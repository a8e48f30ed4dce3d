package pools

import (
	"context"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// bulk is the size of a large message: a little less than what gRPC takes by default.
const bulk = 4_000_000

// server answers after a time, and sends and takes large messages.
type server struct {
	pb.UnimplementedTestServiceServer
	takes time.Duration
}

// serve starts a server, and returns its address and what stops it.
func serve(s server, opts ...grpc.ServerOption) (address string, stop func(), err error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	g := grpc.NewServer(opts...)
	pb.RegisterTestServiceServer(g, s)
	done := make(chan struct{})
	go func() {
		_ = g.Serve(lis) // it ends with Stop
		close(done)
	}()
	return lis.Addr().String(), func() { g.Stop(); <-done }, nil
}

func (s server) UnaryCall(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if s.takes > 0 {
		time.Sleep(s.takes)
	}
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

func (s server) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	for {
		if _, err := stream.Recv(); err == io.EOF {
			return stream.SendAndClose(&pb.StreamingInputCallResponse{})
		} else if err != nil {
			return err
		}
	}
}

func (s server) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, stream pb.TestService_StreamingOutputCallServer) error {
	message := &pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, bulk)}}
	for {
		if err := stream.Send(message); err != nil {
			return err
		}
	}
}
