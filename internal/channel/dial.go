package channel

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	gbalancer "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	_ "github.com/quorate/quorate/balancer/policies" // the built-in strategies
	"github.com/quorate/quorate/internal/endpoint"
	"github.com/quorate/quorate/internal/leader"
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
		// To size windows, gRPC would send a ping when data arrives: a quarter of what an event costs the server, and a
		// third of what it costs the client. A stream's window is about what Linux lets TCP have on its way, that of a
		// connection the most that gRPC would choose.
		grpc.WithStaticStreamWindowSize(4 << 20),
		grpc.WithStaticConnWindowSize(16 << 20),
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
// and token, and more options. The caller closes it. Calls on it are those of [Channel.Conn].
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

// DefaultStrategy is the strategy of a channel without a configured one.
const DefaultStrategy = "round_robin"

// init registers "leader", which package policies does not have: it is for members of a Raft cluster.
func init() { balancer.Register(leader.Builder) }

// Balancing selects the strategy that spreads calls over the endpoints.
type Balancing struct {
	// Strategy is the name of a strategy registered with package balancer, such as "p2c", with or
	// without [balancer.Prefix]. "" leaves the choice to the service config.
	Strategy string
	// Config has the fields of the policy and the strategy, as a JSON object; nil for their
	// defaults.
	Config json.RawMessage
}

// serviceConfig returns the service config of the channel's ClientConns, and the name of its
// strategy: b's, or else the first known one in loadBalancingConfig of the user's service config,
// or else the default. It does not configure gRPC's retry, which is off (see dialOptions) because
// it resends writes that a broken connection may have delivered.
func (b Balancing) serviceConfig(user string) (js, strategy string, err error) {
	if b.Strategy == "" {
		if b, err = fromServiceConfig(user); err != nil {
			return "", "", err
		}
	}
	name, ok := policyOf(b.Strategy)
	if !ok {
		return "", "", fmt.Errorf("balancing: there is no strategy %q; %q is one", b.Strategy, DefaultStrategy)
	}
	if b.Config == nil {
		b.Config = json.RawMessage("{}")
	}
	if parser, ok := gbalancer.Get(name).(gbalancer.ConfigParser); ok {
		if _, err := parser.ParseConfig(b.Config); err != nil {
			return "", "", fmt.Errorf("balancing: %w", err)
		}
	}
	out, err := json.Marshal(map[string]any{
		"loadBalancingConfig": []map[string]json.RawMessage{{name: b.Config}},
	})
	if err != nil {
		return "", "", fmt.Errorf("balancing: %w", err)
	}
	return string(out), strings.TrimPrefix(name, balancer.Prefix), nil
}

// fromServiceConfig returns the first known policy in loadBalancingConfig.
func fromServiceConfig(js string) (Balancing, error) {
	var raw struct {
		LoadBalancingConfig []map[string]json.RawMessage `json:"loadBalancingConfig"`
	}
	if js != "" {
		if err := json.Unmarshal([]byte(js), &raw); err != nil {
			return Balancing{}, fmt.Errorf("service config: %w", err)
		}
	}
	if len(raw.LoadBalancingConfig) == 0 {
		return Balancing{Strategy: DefaultStrategy}, nil
	}
	var unknown []string
	for i, entry := range raw.LoadBalancingConfig {
		if len(entry) != 1 {
			return Balancing{}, fmt.Errorf("service config: loadBalancingConfig[%d]: it must have exactly one field, the policy's name", i)
		}
		for name, config := range entry {
			if _, ok := policyOf(name); ok {
				return Balancing{Strategy: name, Config: config}, nil
			}
			unknown = append(unknown, name)
		}
	}
	return Balancing{}, fmt.Errorf("service config: loadBalancingConfig: none of its policies is known here (%s); %q is one",
		strings.Join(unknown, ", "), DefaultStrategy)
}

// policyOf returns the name of the gRPC policy with a strategy, whose name may have the prefix,
// and whether that policy exists.
func policyOf(strategy string) (string, bool) {
	name := balancer.Prefix + strings.TrimPrefix(strategy, balancer.Prefix)
	return name, gbalancer.Get(name) != nil
}
