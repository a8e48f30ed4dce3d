package grpcpool_test

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

// static is a resolver for "static:///" that resolves to its addresses.
type static []string

func (s static) Scheme() string { return "static" }

func (s static) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	var state resolver.State
	for _, addr := range s {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr}}})
	}
	return nothing{}, cc.UpdateState(state)
}

type nothing struct{}

func (nothing) ResolveNow(resolver.ResolveNowOptions) {}
func (nothing) Close()                                {}

func testClient(conn grpc.ClientConnInterface) pb.TestServiceClient {
	return pb.NewTestServiceClient(conn)
}

func grpcError(s *pb.EchoStatus) error {
	return status.Error(codes.Code(s.Code), s.Message)
}
