package resolvers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"

	_ "github.com/quorate/quorate/balancer/policies" // quorate_round_robin
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/pace"
)

// kind is what a channel does.
type kind uint8

const (
	steady kind = iota
	// calling channels connect to all backends and make calls all the time; the others connect to one.
	calling
	// idling channels enter idle mode, and are connected again.
	idling
	// reopened channels are closed, and opened again.
	reopened
)

// kinds are given to channels by turns.
var kinds = []kind{calling, idling, reopened, idling, steady, idling, reopened, idling, steady, steady}

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
		grpc.WithIdleTimeout(idleTimeout), grpc.WithNoProxy(),
	}
	return c
}

// openLocked opens the channel, and has it resolve its target at once.
func (c *channel) openLocked() (err error) {
	if c.conn, err = grpc.NewClient(c.target, c.opts...); err == nil {
		c.conn.Connect()
	}
	return err
}

func (c *channel) closeLocked() error {
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}

func (c *channel) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closeLocked()
}

// exitIdle makes the channel leave idle mode.
func (c *channel) exitIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn.GetState() == connectivity.Idle {
		c.conn.Connect()
	}
}

// call makes a call over the channel.
func (c *channel) call(ctx context.Context) error {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	return err
}

// keepCalling makes calls until ctx ends. One that fails, as it does when its channel is closed, is repeated.
func (t *trial) keepCalling(ctx context.Context, c *channel, rng *rand.Rand) {
	for pause.For(ctx, pace.Between(rng, shortestCalls, longestCalls)) == nil {
		began := t.now()
		err := c.call(ctx)
		for err != nil && t.now()-began < callTimeout && pause.For(ctx, shortestCalls) == nil {
			err = c.call(ctx)
		}
		if ctx.Err() == nil {
			t.called(t.now()-began, err)
		}
	}
}

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
	defer b.mu.Unlock()
	for address, one := range b.servers {
		if !slices.Contains(keep, address) {
			delete(b.servers, address)
			one.server.Stop()
		}
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
