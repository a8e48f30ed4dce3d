package channel

import (
	"net/url"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/endpoint"
)

// dialOptions returns the options of every connection of the client. The user's come last
// and take precedence. They cannot replace retries and tokens: retries are above the
// connection, and the last chained interceptor attaches tokens.
func dialOptions(cfg Config, c *client, s *sharing, eps []endpoint.Endpoint) []grpc.DialOption {
	anyTLS := slices.ContainsFunc(eps, func(ep endpoint.Endpoint) bool { return ep.UseTLS(cfg.TLS != nil) })
	opts := []grpc.DialOption{
		grpc.WithContextDialer(s.dial),
		grpc.WithTransportCredentials(balancer.Credentials(newTransportCredentials(cfg.TLS, cfg.Roots, anyTLS, s))),
		grpc.WithDisableRetry(),
		// An idle channel would close connections with open streams, and the first call
		// after an idle period would wait for a new connection.
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(balancer.ConnectParams()),
	}
	if cfg.KeepAlive.Time > 0 {
		opts = append(opts, grpc.WithKeepaliveParams(cfg.KeepAlive))
	}
	opts = append(opts, cfg.DialOptions...)
	return append(opts, grpc.WithChainUnaryInterceptor(c.lastUnary), grpc.WithChainStreamInterceptor(c.lastStream))
}

func (c *Channel) dialWith(r resolver.Builder, more ...grpc.DialOption) []grpc.DialOption {
	opts := append(slices.Clone(c.options), grpc.WithResolvers(r))
	return append(opts, more...)
}

// target returns the gRPC target. gRPC derives from it the authority of calls whose
// endpoint sets none.
func target(eps []endpoint.Endpoint) string {
	return scheme + ":///" + url.PathEscape(eps[0].ServerName)
}

// singleServiceConfig is the service config of connections to one endpoint. Its policy
// has no probes: a caller that names an endpoint waits for its response however long it
// takes, for example for a defragmentation.
const singleServiceConfig = `{"loadBalancingConfig":[{"` + balancer.Prefix + DefaultStrategy + `":{}}]}`

// Dial returns a new connection to one endpoint, with the channel's options
// and token, and more options. The caller closes it. Calls on it are not retried.
func (c *Channel) Dial(ep string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	parsed, err := parseAll([]string{ep})
	if err != nil {
		return nil, err
	}
	r := newResolver(parsed, c.security.tls, singleServiceConfig, nil)
	return grpc.NewClient(target(parsed), c.dialWith(r, more...)...)
}

const (
	// singleIdle is how long a connection to a single endpoint stays open without calls.
	// Programs that request one member's status tend to repeat it every few seconds.
	singleIdle = 30 * time.Second

	// singleForgotten is when an unused connection is removed. It is far longer than a
	// call can wait before it is sent.
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

// At returns a connection for calls to one endpoint, which need not be one of the
// channel's. The connection is kept for the next call and closes itself when it has not
// been used for half a minute. While it cannot be made, each At begins an attempt, once a
// second at most.
func (c *Channel) At(ep string) (grpc.ClientConnInterface, error) {
	s := &c.single
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	now := time.Now()
	if conn, ok := s.conns[ep]; ok {
		conn.asked = now
		conn.Connect()
		return conn.calls, nil
	}
	s.sweepLocked(now)
	conn, err := c.Dial(ep, grpc.WithIdleTimeout(singleIdle))
	if err != nil {
		return nil, err
	}
	if s.conns == nil {
		s.conns = make(map[string]*single)
	}
	calls := c.Over(conn)
	s.conns[ep] = &single{ClientConn: conn, calls: calls, asked: now}
	return calls, nil
}

// sweepLocked removes unused connections, so that they do not accumulate in a client whose
// endpoints change often.
func (s *singles) sweepLocked(now time.Time) {
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
