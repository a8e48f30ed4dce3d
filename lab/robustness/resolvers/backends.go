package resolvers

import (
	"context"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// port is that of all backends.
const port = 8080

// backends are real gRPC servers at addresses that only the channels of a run know.
type backends struct {
	mu      sync.Mutex
	started int
	servers map[string]*backend // by address
}

type backend struct {
	at     string // where it listens
	server *grpc.Server
}

// start starts n backends, and returns their addresses, which were never used before.
func (b *backends) start(n int) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	addresses := make([]string, n)
	for i := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		address := fmt.Sprintf("10.77.%d.%d:%d", b.started/250, b.started%250+1, port)
		b.started++
		addresses[i] = address
		one := &backend{at: l.Addr().String(), server: grpc.NewServer()}
		healthpb.RegisterHealthServer(one.server, health.NewServer())
		go func() { _ = one.server.Serve(l) }() // until stop
		b.servers[address] = one
	}
	return addresses, nil
}

// stop ends the backends that are not in keep.
func (b *backends) stop(keep []string) {
	b.mu.Lock()
	gone := b.servers
	b.servers = map[string]*backend{}
	for _, address := range keep {
		if one := gone[address]; one != nil {
			b.servers[address] = one
			delete(gone, address)
		}
	}
	b.mu.Unlock()
	for _, one := range gone {
		one.server.Stop()
	}
}

// dial connects to the backend of an address.
func (b *backends) dial(ctx context.Context, address string) (net.Conn, error) {
	b.mu.Lock()
	one := b.servers[address]
	b.mu.Unlock()
	if one == nil {
		return nil, fmt.Errorf("there is no backend at %s any more", address)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", one.at)
}
