package channel

import (
	"net/url"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/endpoint"
)

// How a lost connection is made again: after reconnectDelay, and then after full
// jitter, a delay that is uniform between 0 and a cap which grows by 1.6 up to
// maxReconnectDelay. gRPC adds ±Jitter to a delay and takes a fraction of at most
// the whole, so full jitter is Jitter 1 around half of the cap; its first delay has
// no jitter. The balancer adds to it where others serve: 10,000 clients make 2,000 connection
// attempts a second at a dead member in its first minute, and then 340.
const (
	reconnectDelay    = 100 * time.Millisecond
	maxReconnectDelay = 10 * time.Second

	// minConnectTimeout is how long an attempt may take, TLS and HTTP/2 settings
	// included; gRPC's default. A member that restarts below thousands of TLS clients
	// queues their handshakes: who gives up early throws its turn away and comes back.
	// connectTimeout bounds the part before TLS.
	minConnectTimeout = 20 * time.Second
)

// dialOptions are those of every connection of the client, with the user's after
// ours, so that they win. Retry and tokens do not depend on options that a user's
// could replace: retry stands above the connection, and tokens are attached by the
// last of the chained interceptors.
func dialOptions(cfg Config, c *client, s *sharing, eps []endpoint.Endpoint) []grpc.DialOption {
	anyTLS := slices.ContainsFunc(eps, func(ep endpoint.Endpoint) bool { return ep.UseTLS(cfg.TLS != nil) })
	opts := []grpc.DialOption{
		grpc.WithContextDialer(s.dial),
		grpc.WithTransportCredentials(balancer.Credentials(newTransportCredentials(cfg.TLS, cfg.Roots, anyTLS))),
		grpc.WithDisableRetry(),
		// An idle channel would close its connections under open streams' feet
		// and pay for a new connection with the first call after a quiet hour.
		grpc.WithIdleTimeout(0),
		reconnecting(maxReconnectDelay),
	}
	if cfg.KeepAlive.Time > 0 {
		opts = append(opts, grpc.WithKeepaliveParams(cfg.KeepAlive))
	}
	opts = append(opts, cfg.DialOptions...)
	return append(opts, grpc.WithChainUnaryInterceptor(c.lastUnary), grpc.WithChainStreamInterceptor(c.lastStream))
}

func reconnecting(maxDelay time.Duration) grpc.DialOption {
	return grpc.WithConnectParams(connectParams(maxDelay))
}

// connectParams reconnects with full jitter, after maxDelay at the latest.
func connectParams(maxDelay time.Duration) grpc.ConnectParams {
	return grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: reconnectDelay, Multiplier: 1.6, Jitter: 1, MaxDelay: maxDelay / 2},
		MinConnectTimeout: minConnectTimeout,
	}
}

func (c *Channel) dialWith(r resolver.Builder, more ...grpc.DialOption) []grpc.DialOption {
	opts := append(slices.Clone(c.options), grpc.WithResolvers(r))
	return append(opts, more...)
}

// target is what conn.Target() shows, and where grpc finds the authority of
// calls that have no endpoint's.
func target(eps []endpoint.Endpoint) string {
	return scheme + ":///" + url.PathEscape(eps[0].ServerName)
}

// singleServiceConfig is that of connections to one endpoint. Its policy is given
// nothing to probe with: who names an endpoint wants that one's answer, however
// long it takes, as a defragmentation does.
const singleServiceConfig = `{"loadBalancingConfig":[{"` + balancer.Prefix + DefaultStrategy + `":{}}]}`

// Dial returns a new connection to one endpoint, with the channel's options
// and token. The caller closes it. Calls on it are not retried.
func (c *Channel) Dial(ep string) (*grpc.ClientConn, error) { return c.dial(ep) }

func (c *Channel) dial(ep string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	parsed, err := parseAll([]string{ep})
	if err != nil {
		return nil, err
	}
	r := newResolver(parsed, c.security.tls, singleServiceConfig, nil)
	return grpc.NewClient(target(parsed), c.dialWith(r, more...)...)
}

const (
	// singleIdle is how long a connection to a single endpoint stays open
	// without calls. Those who ask one member for its status tend to ask
	// again, every few seconds.
	singleIdle = 30 * time.Second

	// maxSingleReconnectDelay is short: a caller who names an endpoint wants it
	// tried now, whatever was learnt about it before.
	maxSingleReconnectDelay = 500 * time.Millisecond

	// singleForgotten is when a connection that nobody asked for is dropped
	// altogether. It is far longer than a call can wait before it is sent.
	singleForgotten = 10 * time.Minute
)

// singles keeps a connection for each endpoint that was called by name.
type singles struct {
	mu     sync.Mutex
	conns  map[string]*single
	closed bool
}

type single struct {
	*grpc.ClientConn
	calls grpc.ClientConnInterface
	asked time.Time
}

// At carries calls to one endpoint, which need not be one of the channel's.
// The connection is kept for the next call and closes itself when it has not
// been used for half a minute.
func (c *Channel) At(ep string) (grpc.ClientConnInterface, error) {
	return c.single.get(ep, func() (*single, error) {
		conn, err := c.dial(ep, grpc.WithIdleTimeout(singleIdle), reconnecting(maxSingleReconnectDelay))
		if err != nil {
			return nil, err
		}
		return &single{ClientConn: conn, calls: c.Over(conn)}, nil
	})
}

func (s *singles) get(ep string, dial func() (*single, error)) (grpc.ClientConnInterface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	now := time.Now()
	if conn, ok := s.conns[ep]; ok {
		conn.asked = now
		return conn.calls, nil
	}
	s.sweep(now)
	conn, err := dial()
	if err != nil {
		return nil, err
	}
	if s.conns == nil {
		s.conns = make(map[string]*single)
	}
	conn.asked = now
	s.conns[ep] = conn
	return conn.calls, nil
}

// sweep drops what is forgotten, so that a client which sees many endpoints
// come and go keeps none of them for ever. It needs the lock.
func (s *singles) sweep(now time.Time) {
	for ep, conn := range s.conns {
		if now.Sub(conn.asked) > singleForgotten && conn.GetState() == connectivity.Idle {
			conn.Close()
			delete(s.conns, ep)
		}
	}
}

func (s *singles) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, conn := range s.conns {
		conn.Close()
	}
	s.conns = nil
}
