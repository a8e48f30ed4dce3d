package channel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/endpoint"
)

// security decides what a client may send in plaintext.
//
// A client is secured if it has a TLS configuration, or if the program named an endpoint
// that uses TLS. A secured client makes plaintext connections only to endpoints that the
// program named itself, and never sends tokens or passwords in plaintext.
type security struct {
	tls           bool // the client has a TLS configuration
	allowInsecure bool // [Config.AllowInsecureSync]

	secured atomic.Bool

	mu    sync.Mutex
	named map[string]bool // the plaintext addresses that the program named last
}

func newSecurity(cfg Config) *security {
	s := &security{tls: cfg.TLS != nil, allowInsecure: cfg.AllowInsecureSync}
	s.name(cfg.Endpoints, func() {})
	return s
}

// name sets the endpoints that the program named. An empty list, with which programs
// reset connections, changes nothing. It calls prepare before the client becomes secured.
func (s *security) name(endpoints []string, prepare func()) {
	if len(endpoints) == 0 {
		return
	}
	named, secured := make(map[string]bool), s.tls
	for _, raw := range endpoints {
		ep, err := endpoint.Parse(raw)
		switch {
		case err != nil: // setEndpointsLocked logs it
			secured = secured || s.secured.Load() // the endpoint may be one that uses TLS
		case ep.UseTLS(s.tls):
			secured = true
		default:
			named[ep.Address] = true
		}
	}
	if secured && !s.secured.Load() {
		prepare()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named = named
	s.secured.Store(secured)
}

// Secured reports whether the client has a TLS configuration, or the program named an
// endpoint that uses TLS. Such a client never sends tokens or passwords in plaintext.
func (c *Channel) Secured() bool { return c.security.secured.Load() }

// SplitFound divides endpoints that the cluster advertises into usable and unusable ones:
// a secured client does not use plaintext endpoints that the program did not name.
func (c *Channel) SplitFound(endpoints []string) (usable, plaintext []string) {
	s := c.security
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.allowInsecure || !s.secured.Load() {
		return endpoints, nil
	}
	for _, raw := range endpoints {
		ep, err := endpoint.Parse(raw)
		if err == nil && !ep.UseTLS(s.tls) && !s.named[ep.Address] {
			plaintext = append(plaintext, raw)
		} else {
			usable = append(usable, raw)
		}
	}
	return usable, plaintext
}

// Named returns how often the program has named endpoints, see [Channel.SetEndpoints].
func (c *Channel) Named() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.named
}

// SetFoundEndpoints is [Channel.SetEndpoints] for endpoints that the program did not name
// itself. It skips the unusable ones, see [Channel.SplitFound]. It reports false and changes
// nothing if the program has named endpoints since [Channel.Named] returned named.
func (c *Channel) SetFoundEndpoints(endpoints []string, named uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.named != named {
		return false
	}
	usable, _ := c.SplitFound(endpoints)
	c.setEndpointsLocked(usable)
	return true
}

// hasPassword reports whether the requests of a method carry a password.
func hasPassword(method string) bool {
	switch method {
	case pb.Auth_Authenticate_FullMethodName, pb.Auth_UserAdd_FullMethodName, pb.Auth_UserChangePassword_FullMethodName:
		return true
	default:
		return false
	}
}

// isPlaintext reports whether the request of ctx is sent over a plaintext connection.
func isPlaintext(ctx context.Context) bool {
	info, _ := credentials.RequestInfoFromContext(ctx)
	return credentials.CheckSecurityLevel(info.AuthInfo, credentials.PrivacyAndIntegrity) != nil
}

// errPlaintext is the error for a secret that would be sent to an endpoint in plaintext.
// Its code means that the call was not sent and that a repetition would fail too.
func errPlaintext(what, endpoint string) error {
	return status.Errorf(codes.Unauthenticated, "etcdclient: %s is not sent to %s in plaintext, because the client is configured for TLS: "+
		"name the endpoint by an https URL, or configure the client without TLS and https endpoints", what, endpoint)
}

// transportCredentials secures each connection according to its endpoint: a client may
// have http, https and unix endpoints together. [security] decides which are allowed.
type transportCredentials struct {
	anyTLS bool                             // the client has an endpoint with TLS from the start
	config *tls.Config                      // nil if the client has none
	roots  func() *x509.CertPool            // read at each handshake; nil to use config's
	secure credentials.TransportCredentials // made from config, for everything that does not depend on the roots
	info   credentials.ProtocolInfo

	sharing *sharing // knows the handshakes
}

// newTransportCredentials takes the TLS configuration of the client, if it has one, and whether
// its first endpoints use TLS. gRPC asks for one Info, which stands for all endpoints: it refuses
// call credentials that require TLS if Info has none.
func newTransportCredentials(config *tls.Config, roots func() *x509.CertPool, anyTLS bool, s *sharing) credentials.TransportCredentials {
	c := &transportCredentials{
		anyTLS: anyTLS,
		config: config,
		roots:  roots,
		secure: credentials.NewTLS(config),

		sharing: s,
	}
	c.info = insecure.NewCredentials().Info()
	if anyTLS {
		c.info = c.secure.Info()
	}
	return c
}

func (c *transportCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c.sharing.note(c.sharing.named, authority)
	if !c.usesTLS(ctx) {
		return insecure.NewCredentials().ClientHandshake(ctx, authority, conn)
	}
	secured, info, err := c.current().ClientHandshake(ctx, authority, conn)
	c.sharing.dialer.handshakes.ended(conn, err)
	return secured, info, err
}

// usesTLS reports whether the address of a handshake is that of an endpoint with TLS. An address
// without the attribute comes from another resolver: a client with TLS uses TLS for it.
func (c *transportCredentials) usesTLS(ctx context.Context) bool {
	attrs := credentials.ClientHandshakeInfoFromContext(ctx).Attributes
	if s, ok := attrs.Value(securityKey{}).(endpoint.Security); ok {
		return s == endpoint.TLS
	}
	return c.config != nil || c.anyTLS
}

// current returns TLS credentials with the current certificate authorities.
func (c *transportCredentials) current() credentials.TransportCredentials {
	if c.roots == nil || c.config == nil {
		return c.secure
	}
	config := c.config.Clone()
	config.RootCAs = c.roots()
	return credentials.NewTLS(config)
}

func (c *transportCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("client credentials cannot secure a server")
}

func (c *transportCredentials) Info() credentials.ProtocolInfo { return c.info }

func (c *transportCredentials) Clone() credentials.TransportCredentials {
	clone := *c
	return &clone
}

func (c *transportCredentials) OverrideServerName(name string) error {
	c.info.ServerName = name //nolint:staticcheck // the method is deprecated too, but part of the interface
	return nil
}
