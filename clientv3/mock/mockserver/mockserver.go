// Package mockserver starts gRPC servers that accept the requests of etcd's KV and
// Lease services and answer each with an empty response, for tests of connections,
// balancers and resolvers. Streams of RangeStream and of services that it does not
// have end with codes.Unimplemented, those of LeaseKeepAlive end at once.
//
// For tests that need the answers of etcd, use package fakeetcd.
package mockserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/protobuf/types/known/emptypb"
)

// MockServer is one server. Its fields change when [MockServers] starts and stops
// it.
type MockServer struct {
	// Network is "tcp" or "unix".
	Network string

	// Address is what the server listens on, "host:port" or the path of a socket.
	// It stays the same when the server is stopped and started again.
	Address string

	// GRPCServer is the running server, nil while it is stopped.
	GRPCServer *grpc.Server

	served chan struct{} // closed when GRPCServer has stopped serving
}

// ResolverAddress returns the server's address in the form that a resolver of gRPC
// delivers.
func (ms *MockServer) ResolverAddress() resolver.Address {
	if ms.Network == "unix" {
		return resolver.Address{Addr: "unix://" + ms.Address}
	}
	return resolver.Address{Addr: ms.Address}
}

// start starts the server, unless it runs.
func (ms *MockServer) start() error {
	if ms.GRPCServer != nil {
		return nil
	}
	listener, err := net.Listen(ms.Network, ms.Address)
	if err != nil {
		return fmt.Errorf("mockserver: %w", err)
	}
	server, served := grpc.NewServer(grpc.UnaryInterceptor(answer)), make(chan struct{})
	pb.RegisterKVServer(server, pb.UnimplementedKVServer{})
	pb.RegisterLeaseServer(server, leaseServer{})
	ms.Address, ms.GRPCServer, ms.served = listener.Addr().String(), server, served
	go func() {
		defer close(served)
		_ = server.Serve(listener) // it reports that it was stopped
	}()
	return nil
}

// answer answers a call with a message without fields, which is the empty response of each type.
func answer(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
	return &emptypb.Empty{}, nil
}

// leaseServer ends the streams of keepalives.
type leaseServer struct{ pb.UnimplementedLeaseServer }

func (leaseServer) LeaseKeepAlive(pb.Lease_LeaseKeepAliveServer) error { return nil }

// stop stops the server, if it runs.
func (ms *MockServer) stop() {
	if ms.GRPCServer == nil {
		return
	}
	ms.GRPCServer.Stop()
	<-ms.served
	ms.GRPCServer = nil
}

// MockServers are servers that do not know of each other. Its methods may be called
// concurrently.
type MockServers struct {
	// Servers are all of them, whether they run or not.
	Servers []*MockServer

	mu sync.Mutex // held while a server is started or stopped
}

// StartMockServers starts servers that listen on TCP ports of localhost.
func StartMockServers(count int) (*MockServers, error) {
	return StartMockServersOnNetwork(count, "tcp")
}

// StartMockServersOnNetwork starts servers that listen on TCP ports of localhost
// ("tcp") or on Unix sockets in os.TempDir ("unix"). If one cannot listen, none is
// left running.
func StartMockServersOnNetwork(count int, network string) (*MockServers, error) {
	if count < 0 {
		return nil, fmt.Errorf("mockserver: the count of servers is %d: it cannot be negative", count)
	}
	ms := new(MockServers)
	for i := range count {
		address, err := freeAddress(network)
		if err == nil {
			ms.Servers = append(ms.Servers, &MockServer{Network: network, Address: address})
			err = ms.StartAt(i)
		}
		if err != nil {
			ms.Stop()
			return nil, err
		}
	}
	return ms, nil
}

// freeAddress returns an address without a listener.
func freeAddress(network string) (string, error) {
	switch network {
	case "tcp":
		return "localhost:0", nil
	case "unix":
		return filepath.Join(os.TempDir(), "etcd-mock-"+rand.Text()[:12]), nil
	default:
		return "", fmt.Errorf(`mockserver: network %q is not supported: use "tcp" or "unix"`, network)
	}
}

// StartAt starts a server that was stopped, at the address that it had; one that
// runs is left alone. It fails if there is no such server, or if the address is no
// longer free.
func (ms *MockServers) StartAt(idx int) error {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if idx < 0 || idx >= len(ms.Servers) {
		return fmt.Errorf("mockserver: there is no server %d: there are %d, from 0 on", idx, len(ms.Servers))
	}
	return ms.Servers[idx].start()
}

// StopAt stops a server: its listener and all its connections are closed when it
// returns. It does nothing if the server does not run, or there is none.
func (ms *MockServers) StopAt(idx int) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if idx >= 0 && idx < len(ms.Servers) {
		ms.Servers[idx].stop()
	}
}

// Stop stops every server that runs. It may be called more than once, and the
// servers may be started again.
func (ms *MockServers) Stop() {
	for i := range ms.Servers {
		ms.StopAt(i)
	}
}
