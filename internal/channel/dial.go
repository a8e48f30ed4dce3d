package channel

import (
	"net/url"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/endpoint"
)

// How a lost connection is made again: at once, then in steps that grow to
// maxReconnectDelay, so that a member which restarts is used again within
// seconds, and one that is gone costs little.
const (
	reconnectDelay    = 100 * time.Millisecond
	maxReconnectDelay = 3 * time.Second

	// minConnectTimeout bounds one attempt to connect, TLS and HTTP/2 settings
	// included. A stopped process still accepts TCP, so without it (grpc's
	// default is 20 s) each attempt on one would take that long. 3 s leave a
	// TLS handshake its four round trips at 700 ms each.
	minConnectTimeout = 3 * time.Second
)

// dialOptions are those of every connection of the client, the user's last, so
// that they win. Retry and tokens do not depend on options that a user's could
// replace: retry stands above the connection, and interceptors are chained.
func dialOptions(cfg Config, s *shared, eps []endpoint.Endpoint) []grpc.DialOption {
	anyTLS := slices.ContainsFunc(eps, func(ep endpoint.Endpoint) bool { return ep.UseTLS(cfg.TLS != nil) })
	opts := []grpc.DialOption{
		grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(balancer.Credentials(newTransportCredentials(cfg.TLS, cfg.Roots, anyTLS))),
		grpc.WithPerRPCCredentials(s.tokens),
		grpc.WithChainUnaryInterceptor(s.rawUnary),
		grpc.WithChainStreamInterceptor(s.rawStream),
		grpc.WithDisableRetry(),
		// An idle channel would close its connections under open streams' feet
		// and pay for a new connection with the first call after a quiet hour.
		grpc.WithIdleTimeout(0),
		reconnecting(maxReconnectDelay),
	}
	if cfg.KeepAlive.Time > 0 {
		opts = append(opts, grpc.WithKeepaliveParams(cfg.KeepAlive))
	}
	return append(opts, cfg.DialOptions...)
}

func reconnecting(maxDelay time.Duration) grpc.DialOption {
	return grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: reconnectDelay, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxDelay},
		MinConnectTimeout: minConnectTimeout,
	})
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
	r := newResolver(parsed, singleServiceConfig, nil)
	return grpc.NewClient(target(parsed), c.dialWith(r, more...)...)
}
