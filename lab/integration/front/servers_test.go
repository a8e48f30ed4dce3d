package front_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/link"
)

// server is a gRPC server, reached through a link.
type server struct {
	pb.UnimplementedTestServiceServer
	link *link.Link

	mu   sync.Mutex
	seen map[string]int // how often each request was executed, by its payload
}

func startServer(t *testing.T, creds credentials.TransportCredentials) *server {
	t.Helper()
	s := &server{seen: map[string]int{}}
	address := grpctest.Serve(t, func(g grpc.ServiceRegistrar) {
		pb.RegisterTestServiceServer(g, s)
		healthpb.RegisterHealthServer(g, grpchealth.NewServer())
	}, grpc.Creds(creds), grpc.WaitForHandlers(true))
	var err error
	s.link, err = link.Listen(address.String())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.link.Close()) })
	return s
}

func startServers(t *testing.T, n int) []*server {
	t.Helper()
	servers := make([]*server, n)
	for i := range servers {
		servers[i] = startServer(t, insecure.NewCredentials())
	}
	return servers
}

func (s *server) addr() string { return s.link.Addr() }

func (s *server) UnaryCall(_ context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[string(req.GetPayload().GetBody())]++
	return &pb.SimpleResponse{Username: s.addr()}, nil
}

// FullDuplexCall echoes the payload of each message.
func (s *server) FullDuplexCall(stream grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := stream.Send(&pb.StreamingOutputCallResponse{Payload: req.GetPayload()}); err != nil {
			return err
		}
	}
}

// load is many calls at a time, with their results.
type load struct {
	next    atomic.Int64
	mu      sync.Mutex
	errors  []error
	partial []error         // errors of calls whose response headers had arrived, which gRPC never retries
	ok      map[string]bool // by payload
}

// run makes calls, from as many goroutines as there are callers.
func (l *load) run(conn *grpc.ClientConn, callers, calls int) {
	l.ok = map[string]bool{}
	client := pb.NewTestServiceClient(conn)
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for {
				n := l.next.Add(1)
				if n > int64(calls) {
					return
				}
				l.call(client, fmt.Sprintf("%p/%d", l, n))
			}
		})
	}
	running.Wait()
}

func (l *load) call(client pb.TestServiceClient, payload string) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	var header metadata.MD
	_, err := client.UnaryCall(ctx, &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(payload)}}, grpc.Header(&header))
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil && header != nil:
		l.partial = append(l.partial, err)
		return
	case err != nil:
		l.errors = append(l.errors, err)
		return
	}
	l.ok[payload] = true
}

// executed returns how often each request was executed, on all servers together.
func executed(servers []*server) map[string]int {
	sum := map[string]int{}
	for _, s := range servers {
		s.mu.Lock()
		for payload, n := range s.seen {
			sum[payload] += n
		}
		s.mu.Unlock()
	}
	return sum
}
