// Package channel connects the API client with gRPC. It builds the connections of a
// client (dialer, transport credentials, tokens, resolver, balancing) and executes calls
// and streams over them by the rules of package retry. The API client uses it as a
// grpc.ClientConnInterface.
package channel

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/etcdprobe"
	"github.com/quorate/quorate/internal/endpoint"
	"github.com/quorate/quorate/internal/observed"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// Config configures a Channel.
type Config struct {
	// Endpoints in any form that package endpoint parses; at least one.
	Endpoints []string

	// TLS is used for connections to endpoints that allow or require it. New copies it. nil
	// means Go's defaults if the first endpoint requires TLS, and none otherwise.
	TLS *tls.Config
	// Roots, if set, returns the trusted certificate authorities for each TLS handshake,
	// in place of those in TLS.
	Roots func() *x509.CertPool

	// AllowInsecureSync lets a client with TLS use plaintext endpoints that the program
	// did not name, see [Channel.SetFoundEndpoints].
	AllowInsecureSync bool

	// Login is called whenever a token is needed.
	Login func() Login

	// TokenSource returns a token, if [Login.FromSource] is set. It is not called
	// concurrently.
	TokenSource func(ctx context.Context) (string, error)

	// Retry holds the policies for retries and hedges; nil means
	// [retry.DefaultConfig].
	Retry *retry.Config

	// Balancing chooses the strategy by which calls are spread over the endpoints.
	Balancing Balancing

	// ServiceConfig is the user's gRPC service config. Its loadBalancingConfig is used
	// unless Balancing names a strategy.
	ServiceConfig string

	// DisableHealthSharing keeps the channel from sharing the health of its endpoints
	// with other clients.
	DisableHealthSharing bool
	// DisableProbes disables probes, and with them ejecting endpoints and cutting work
	// because of silence.
	DisableProbes bool
	// WriteStallTimeout is balancer.Options.WriteStallTimeout.
	WriteStallTimeout time.Duration

	// Observer, if set, receives the channel's events. Outages, if set, receives them too, except
	// what happens to each call.
	Observer, Outages observe.Observer

	// KeepAlive configures gRPC's pings; a Time of 0 switches them off.
	KeepAlive keepalive.ClientParameters

	// DialOptions are the user's, applied after the channel's own.
	DialOptions []grpc.DialOption

	// Logger is called at every use, because a client's logger may be replaced.
	Logger func() *zap.Logger
}

// Channel carries the calls of one client to its current endpoints.
type Channel struct {
	*Caller
	conn      *grpc.ClientConn
	resolver  *endpointResolver
	streams   *Caller
	options   []grpc.DialOption
	single    singles
	names     *names
	security  *security
	sharing   *sharing
	strategy  string
	inspector observed.Inspector

	mu        sync.RWMutex
	endpoints []string
	named     uint64 // calls of SetEndpoints

	closing sync.Once
}

// New builds a channel. It does not connect before the first call. The error names the
// invalid endpoint or strategy, or is gRPC's error about a dial option.
func New(cfg Config) (*Channel, error) {
	parsed, err := parseAll(cfg.Endpoints)
	if err != nil {
		return nil, err
	}
	serviceConfig, strategy, err := cfg.Balancing.serviceConfig(cfg.ServiceConfig)
	if err != nil {
		return nil, err
	}
	cfg.TLS = cfg.TLS.Clone() // the program may change its own
	if cfg.TLS == nil && parsed[0].Security == endpoint.TLS {
		cfg.TLS = new(tls.Config)
	}
	c := &Channel{names: new(names), single: singles{conns: map[string]*single{}}, security: newSecurity(cfg), sharing: newSharing(cfg), strategy: strategy, endpoints: slices.Clone(cfg.Endpoints)}
	c.names.set(parsed)
	client := newClient(cfg)
	client.name = c.names.of
	c.Caller = client.newCaller(nil, func() int { return c.resolver.width() })
	c.resolver = newResolver(parsed, c.security.tls, serviceConfig, c.policyOptions(cfg))
	c.options = dialOptions(cfg, client, c.sharing, parsed)
	conn, err := grpc.NewClient(target(parsed), c.dialWith(c.resolver)...)
	if err != nil {
		c.sharing.close()
		return nil, err
	}
	c.conn, c.Caller.conn = conn, conn
	c.inspector.Name = c.names.of
	c.streams = newStreams(c.Caller)
	client.tokens.authenticate, client.tokens.secured, client.tokens.name = c.authenticate, c.Secured, c.names.of
	client.tokens.obtained = c.monitor.NotifyImproved // work that waits because there was no token goes on
	client.observer.EndpointsSet(shown(parsed))
	return c, nil
}

// policyOptions returns the balancer options for etcd.
func (c *Channel) policyOptions(cfg Config) *balancer.Options {
	o := &balancer.Options{
		Shared:            sharedHealth,
		ShareKey:          c.sharing.key,
		Classify:          classify,
		Fault:             isFault,
		Monitor:           c.monitor,
		WriteStallTimeout: cfg.WriteStallTimeout,
		DisableSuspicion:  cfg.DisableProbes,
		Events: observed.Events(observe.Multi(cfg.Observer, cfg.Outages), cfg.Observer, c.names.of, func(n int) {
			c.log().Warn("the observer is too slow: it missed changes of endpoints", zap.Int("dropped", n))
		}),
	}
	if !cfg.DisableProbes {
		o.Service = tokenProber{etcdprobe.Service{}, c.tokens}
		o.Liveness = tokenProber{etcdprobe.Liveness{}, c.tokens}
		o.Status = tokenProber{etcdprobe.Status{}, c.tokens}
	}
	return o
}

func parseAll(endpoints []string) ([]endpoint.Endpoint, error) {
	parsed := make([]endpoint.Endpoint, 0, len(endpoints))
	for _, s := range endpoints {
		ep, err := endpoint.Parse(s)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, ep)
	}
	if len(parsed) == 0 {
		return nil, fmt.Errorf("at least one endpoint is required")
	}
	return parsed, nil
}

// Authenticate fetches a token if the user gave a name and a password, or a token
// source. It fails with the server's refusal, the source's error, or the context's end.
func (c *Channel) Authenticate(ctx context.Context) error { return c.tokens.ensure(ctx) }

// authenticate exchanges a name and a password for a token. It needs no token and may be
// repeated: an extra token on the server is harmless.
func (c *Channel) authenticate(ctx context.Context, name, password string) (string, error) {
	const method = pb.Auth_Authenticate_FullMethodName
	req := &pb.AuthenticateRequest{Name: name, Password: password}
	resp := new(pb.AuthenticateResponse)
	err := c.execute(&call{
		caller: c.Caller, method: method, req: req, reply: resp, opts: []grpc.CallOption{grpc.WaitForReady(true)},
		properties: c.propertiesOf(method, req), first: attempt{caller: ctx, anonymous: true},
	})
	return resp.GetToken(), err
}

// Conn returns the connection itself. Calls on it are not retried, but for those of etcd's services that
// were refused for their token.
func (c *Channel) Conn() *grpc.ClientConn { return c.conn }

// Over executes calls over a connection to one endpoint, which the caller made and closes.
// They have a separate retry budget, so that calls to a failing member do not slow down
// other calls. They are never cut: a caller that names a member waits for its answer. While
// there is no connection, their attempts fail, so that without a deadline they end after 15 s.
func (c *Channel) Over(conn grpc.ClientConnInterface) grpc.ClientConnInterface {
	caller := c.newCaller(conn, func() int { return 1 })
	caller.single = true
	return caller
}

// Redact returns endpoints for logging, without the passwords that URLs can hold.
func Redact(endpoints []string) []string {
	redacted := make([]string, len(endpoints))
	for i, s := range endpoints {
		redacted[i] = endpoint.Redact(s)
	}
	return redacted
}

// Endpoints returns the current endpoints, as they were given. It is never nil.
func (c *Channel) Endpoints() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return append([]string{}, c.endpoints...)
}

// SetEndpoints replaces the endpoints. Connections to endpoints that stay are kept, unless the client
// becomes [Channel.Secured]; those to others end after their last call; the owner of a stream on one of
// these is notified by [Retrier.Removed]. Invalid endpoints are skipped with a warning in the log. Without
// any valid endpoint, calls wait for the next SetEndpoints.
func (c *Channel) SetEndpoints(endpoints []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.named++
	c.security.name(endpoints, func() { c.resolver.set(nil) }) // calls wait
	c.setEndpointsLocked(endpoints)
}

func (c *Channel) setEndpointsLocked(endpoints []string) {
	c.endpoints = slices.Clone(endpoints)
	if pause.Closed(c.closed) {
		return
	}
	var parsed []endpoint.Endpoint
	for _, s := range endpoints {
		ep, err := endpoint.Parse(s)
		if err != nil {
			c.log().Warn("leaving out an endpoint", zap.Error(err))
			continue
		}
		parsed = append(parsed, ep)
	}
	c.names.set(parsed)
	c.observer.EndpointsSet(shown(parsed))
	c.resolver.set(parsed)
}

// Statuses returns the status of each endpoint, sorted by name. Names are as configured,
// without passwords.
func (c *Channel) Statuses() []health.Status {
	eps := c.monitor.Endpoints()
	all := make([]health.Status, 0, len(eps))
	for _, ep := range eps {
		s := *ep.Health()
		s.Endpoint = c.names.of(ep)
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b health.Status) int { return cmp.Compare(a.Endpoint, b.Endpoint) })
	return all
}

// Unanswered returns for how long the oldest attempt in flight has had no answer; 0 if there is
// none.
func (c *Channel) Unanswered() time.Duration {
	var oldest time.Duration
	for _, ep := range c.monitor.Endpoints() {
		for _, call := range ep.Inspect(1).Calls {
			oldest = max(oldest, time.Since(call.Start))
		}
	}
	return oldest
}

// Strategy returns the name of the balancing strategy.
func (c *Channel) Strategy() string { return c.strategy }

// Close ends all connections. All present and future calls and streams fail at once with
// codes.Canceled, and so does a second Close.
func (c *Channel) Close() error {
	err := ErrClosed
	c.closing.Do(func() {
		close(c.closed)
		c.single.close()
		err = c.conn.Close()
		c.sharing.close()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.observer.EndpointsSet(nil)
	})
	return err
}
