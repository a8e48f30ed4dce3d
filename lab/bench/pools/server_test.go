package pools

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/quorate/quorate/pool/grpcpool"
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

// channel is a way to reach a server.
type channel interface {
	grpc.ClientConnInterface
	Close() error
}

type dialer struct {
	name string
	dial func(address string) (channel, error)
}

func oneConnection() dialer { return inTurn(1) }

// inTurn is a number of connections that calls go to in turn, whatever they are.
func inTurn(n int) dialer {
	name := fmt.Sprintf("%d-in-turn", n)
	if n == 1 {
		name = "one-connection"
	}
	return dialer{name, func(address string) (channel, error) {
		r := new(rotation)
		for range n {
			cc, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return nil, err
			}
			r.conns = append(r.conns, cc)
		}
		return r, nil
	}}
}

type rotation struct {
	conns []*grpc.ClientConn
	next  atomic.Uint64
}

func (r *rotation) pick() *grpc.ClientConn {
	return r.conns[r.next.Add(1)%uint64(len(r.conns))]
}

func (r *rotation) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return r.pick().Invoke(ctx, method, args, reply, opts...)
}

func (r *rotation) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return r.pick().NewStream(ctx, desc, method, opts...)
}

func (r *rotation) Close() error {
	for _, cc := range r.conns {
		cc.Close()
	}
	return nil
}

// pooled is the pool as it is without any configuration.
func pooled() dialer {
	return dialer{"grpcpool", func(address string) (channel, error) {
		return grpcpool.NewClient("passthrough:///"+address, grpcpool.Config{TransportCredentials: insecure.NewCredentials()})
	}}
}
