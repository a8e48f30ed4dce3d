package resolvers

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

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

	mu   sync.Mutex
	conn *grpc.ClientConn // nil while it is closed
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

// open opens the channel, and has it resolve its target at once.
func (c *channel) open() error {
	conn, err := grpc.NewClient(c.target, c.opts...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	conn.Connect()
	return nil
}

func (c *channel) close() error {
	c.mu.Lock()
	conn := c.conn
	c.conn = nil
	c.mu.Unlock()
	if conn == nil {
		return nil
	}
	return conn.Close()
}

// exitIdle makes the channel leave idle mode.
func (c *channel) exitIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil && c.conn.GetState() == connectivity.Idle {
		c.conn.Connect()
	}
}

// call makes a call over the channel.
func (c *channel) call(ctx context.Context) error {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn == nil {
		return errClosed
	}
	_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	return err
}

var errClosed = errors.New("the channel is closed")

// keepCalling makes calls until ctx ends.
func (t *trial) keepCalling(ctx context.Context, c *channel, rng *rand.Rand) {
	for pause.For(ctx, pace.Between(rng, shortestCalls, longestCalls)) == nil {
		began := time.Now()
		attempts, err := 0, errClosed
		for err != nil && ctx.Err() == nil && time.Since(began) < callTimeout {
			calling, cancel := context.WithTimeout(ctx, callTimeout)
			err = c.call(calling)
			cancel()
			if !errors.Is(err, errClosed) && status.Code(err) != codes.Canceled {
				attempts++
			}
			if err != nil {
				_ = pause.For(ctx, shortestCalls) // the condition of the loop sees the end
			}
		}
		if ctx.Err() != nil {
			return
		}
		t.called(began, attempts, err)
	}
}
