// Package channel is the seam between the API client and the wire. It builds
// the connections of a client (dialer, transport credentials, tokens, resolver,
// balancing) and carries out calls and streams over them by the rules of
// package retry. The API client above it sees a grpc.ClientConnInterface and
// no connection.
package channel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/quorate/quorate/endpoint"
	"github.com/quorate/quorate/retry"
)

// Config is what a Channel is made of.
type Config struct {
	// Endpoints in any form that package endpoint parses; at least one.
	Endpoints []string

	// TLS secures the connections to endpoints that allow or demand it.
	TLS *tls.Config
	// Roots, if set, gives the trusted certificate authorities at each TLS
	// handshake in place of those in TLS.
	Roots func() *x509.CertPool

	// Login is asked whenever a token is needed.
	Login func() Login

	// Retry is the retry policy; nil means [retry.DefaultConfig].
	Retry *retry.Config

	// KeepAlive configures gRPC's pings; a Time of 0 switches them off.
	KeepAlive keepalive.ClientParameters

	// DialOptions are the user's, applied after the channel's own.
	DialOptions []grpc.DialOption

	// Logger is asked at every use, because a client's logger may be replaced.
	Logger func() *zap.Logger
}

// Channel carries the calls of one client to its current endpoints.
type Channel struct {
	*caller
	conn     *grpc.ClientConn
	resolver *endpointResolver
	streams  *Streams
	options  []grpc.DialOption
	single   singles

	mu        sync.RWMutex
	endpoints []string

	closing sync.Once
}

// New builds a channel. It does not connect: that happens with the first call.
// The error names the endpoint that cannot be understood, or is grpc's about a
// dial option.
func New(cfg Config) (*Channel, error) {
	parsed, err := parseAll(cfg.Endpoints)
	if err != nil {
		return nil, err
	}
	c := &Channel{
		resolver:  newResolver(parsed),
		endpoints: slices.Clone(cfg.Endpoints),
	}
	s := newShared(cfg)
	c.options = dialOptions(cfg, s, parsed)
	c.conn, err = grpc.NewClient(target(parsed), c.dialWith(c.resolver)...)
	if err != nil {
		return nil, err
	}
	if c.streams, err = c.newStreams(s, parsed); err != nil {
		_ = c.conn.Close() // it has nothing to report
		return nil, err
	}
	c.caller = &caller{shared: s, conn: c.conn, width: c.resolver.width}
	s.tokens.authenticate = c.authenticate
	return c, nil
}

func newShared(cfg Config) *shared {
	config := cfg.Retry
	if config == nil {
		config = retry.DefaultConfig()
	}
	return &shared{
		config: config,
		budget: retry.NewBudget(config.Throttling),
		tokens: &tokenSource{login: cfg.Login},
		log:    cfg.Logger,
		closed: make(chan struct{}),
	}
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

// Authenticate fetches a token if the user gave a name and a password. It
// fails with the server's refusal, or with the context's end.
func (c *Channel) Authenticate(ctx context.Context) error { return c.tokens.ensure(ctx) }

func (c *Channel) authenticate(ctx context.Context, name, password string) (string, error) {
	req := &pb.AuthenticateRequest{Name: name, Password: password}
	resp := new(pb.AuthenticateResponse)
	if err := c.caller.authenticate(ctx, pb.Auth_Authenticate_FullMethodName, req, resp); err != nil {
		return "", err
	}
	return resp.GetToken(), nil
}

// Conn returns the connection itself. Calls on it are not retried.
func (c *Channel) Conn() *grpc.ClientConn { return c.conn }

// Over carries calls over a connection to one endpoint that somebody else made,
// and closes. They have a retry budget of their own: who asks a member in trouble
// how it is must not slow down calls to the others.
func (c *Channel) Over(conn grpc.ClientConnInterface) grpc.ClientConnInterface {
	return &caller{shared: c.ownBudget(), conn: conn, width: func() int { return 1 }}
}

// Redact returns endpoints as they may be logged: without the passwords that
// URLs can hold.
func Redact(endpoints []string) []string {
	redacted := make([]string, len(endpoints))
	for i, s := range endpoints {
		redacted[i] = endpoint.Endpoint{Raw: s}.String()
	}
	return redacted
}

// Endpoints returns the endpoints in force, as they were given. It is never nil.
func (c *Channel) Endpoints() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return append([]string{}, c.endpoints...)
}

// SetEndpoints replaces the endpoints. Connections to endpoints that stay are
// kept, those to others end after their last call; who has a stream on one of
// these hears of it ([Tries.Removed]). Endpoints that cannot be understood are
// left out, with a warning in the log; with none left, calls wait for the next
// SetEndpoints.
func (c *Channel) SetEndpoints(endpoints []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endpoints = slices.Clone(endpoints)
	var parsed []endpoint.Endpoint
	for _, s := range endpoints {
		ep, err := endpoint.Parse(s)
		if err != nil {
			c.log().Warn("leaving out an endpoint", zap.Error(err))
			continue
		}
		parsed = append(parsed, ep)
	}
	c.resolver.set(parsed)
	c.streams.resolver.set(parsed)
}

// Close ends all connections. Calls and streams, in flight and to come, fail at
// once with codes.Canceled, and so does a second Close.
func (c *Channel) Close() error {
	err := ErrClosed
	c.closing.Do(func() {
		close(c.closed)
		c.single.close()
		err = c.conn.Close()
		c.streams.close()
	})
	return err
}
