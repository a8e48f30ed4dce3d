package resolvers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"

	_ "github.com/quorate/quorate/balancer/policies" // quorate_round_robin
	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab/internal/pace"
)

// kind is what a channel does.
type kind uint8

const (
	// calling channels connect to all backends and make calls all the time; the others connect to one.
	calling kind = iota
	// idling channels enter idle mode, and are connected again.
	idling
	// reopened channels are closed, and opened again.
	reopened
)

// kinds are given to channels by turns.
var kinds = []kind{calling, idling, reopened, idling, reopened, idling, reopened, idling, reopened, idling}

const (
	shortestIdleTimeout, longestIdleTimeout = 300 * time.Millisecond, 3 * time.Second
	// callTimeout is how long calls of a channel may go on failing.
	callTimeout = 5 * time.Second
	// shortestCalls and longestCalls bound the time between two calls of a channel.
	shortestCalls, longestCalls = 20 * time.Millisecond, 120 * time.Millisecond
)

// channel is a gRPC channel, or the next one in its place.
type channel struct {
	kind   kind
	target string
	opts   []grpc.DialOption

	mu   sync.Mutex // held also while it is closed to be opened again
	conn *grpc.ClientConn
}

func newChannel(i int, b resolver.Builder, targets []string, dial func(context.Context, string) (net.Conn, error), rng *rand.Rand) *channel {
	c := &channel{kind: kinds[i%len(kinds)], target: targets[i/len(kinds)%len(targets)]}
	policy := "pick_first"
	if c.kind == calling {
		policy = "quorate_round_robin"
	}
	var idleTimeout time.Duration // never
	if c.kind == idling {
		idleTimeout = pace.Between(rng, shortestIdleTimeout, longestIdleTimeout)
	}
	c.opts = []grpc.DialOption{
		grpc.WithResolvers(b), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"` + policy + `":{}}]}`),
		grpc.WithIdleTimeout(idleTimeout), grpc.WithNoProxy(), grpc.WithAuthority(service),
	}
	return c
}

// openLocked opens the channel, and has it resolve its target at once.
func (c *channel) openLocked() {
	c.conn = fatal.OK(grpc.NewClient(c.target, c.opts...))
	c.conn.Connect()
}

func (c *channel) current() *grpc.ClientConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

// call makes a call over the channel.
func (c *channel) call(ctx context.Context) error {
	_, err := healthpb.NewHealthClient(c.current()).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	return err
}

// port is the port of all backends.
const port = 8080

// backends are addresses that only the channels of a run know. One server answers at all of them.
type backends struct {
	server   *grpc.Server
	listener net.Listener

	mu      sync.Mutex
	started int
	conns   map[string][]net.Conn // to the server, by address
}

// newBackends ends with the first error, see package fatal.
func newBackends() *backends {
	listener := fatal.OK(net.Listen("tcp", "127.0.0.1:0"))
	b := &backends{server: grpc.NewServer(), listener: listener, conns: map[string][]net.Conn{}}
	healthpb.RegisterHealthServer(b.server, health.NewServer())
	go func() { _ = b.server.Serve(listener) }() // until close
	return b
}

// start starts n backends, and returns their addresses, which were never used before.
func (b *backends) start(n int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	addresses := make([]string, n)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("10.77.%d.%d:%d", b.started/250, b.started%250+1, port)
		b.conns[addresses[i]] = nil
		b.started++
	}
	return addresses
}

// stop ends the backends that are not in keep.
func (b *backends) stop(keep []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for address, conns := range b.conns {
		if slices.Contains(keep, address) {
			continue
		}
		delete(b.conns, address)
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}

func (b *backends) close() error {
	b.stop(nil)
	b.server.Stop()
	return nil
}

// dial connects to the backend of an address.
func (b *backends) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", b.listener.Addr().String())
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	conns, ok := b.conns[address]
	if !ok {
		return nil, errors.Join(fmt.Errorf("there is no backend at %s any more", address), conn.Close())
	}
	b.conns[address] = append(conns, conn)
	return conn, nil
}
