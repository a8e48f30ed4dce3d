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

// How a lost connection is made again: after reconnectDelay, and then after full
// jitter, a delay that is uniform between 0 and a cap which grows by 1.6 up to
// maxReconnectDelay. gRPC adds ±Jitter to a delay and takes a fraction of at most
// the whole, so full jitter is Jitter 1 around half of the cap; its first delay has
// no jitter. 10,000 clients of a dead member make 2,000 connection attempts a second,
// evenly spread, each of which the member's kernel refuses with one packet.
const (
	reconnectDelay    = 100 * time.Millisecond
	maxReconnectDelay = 10 * time.Second

	// minConnectTimeout is how long an attempt may take, TLS and HTTP/2 settings
	// included; gRPC's default. A member that restarts below thousands of TLS clients
	// queues their handshakes: who gives up early throws its turn away and comes back.
	// connectTimeout bounds the part before TLS.
	minConnectTimeout = 20 * time.Second
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
