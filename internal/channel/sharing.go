package channel

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"sync"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/endpoint"
	"github.com/quorate/quorate/internal/proxy"
)

// sharedHealth is the health of endpoints shared by the clients of this process.
var sharedHealth = health.NewTable()

// sharing returns the key under which a client shares an endpoint's health: address,
// server name, and how the server and the client are authenticated. A client with a custom
// dialer in its DialOptions shares nothing, because its connections may lead anywhere, nor does
// one with grpc.WithAuthority.
type sharing struct {
	disabled bool
	identity *tlsIdentity // nil if disabled, or if the configuration cannot be compared
	dialer   dialer

	mu     sync.Mutex
	dialed map[string]bool // the addresses that this client's own dialer has dialed
	named  map[string]bool // the server names of its handshakes: those of addresses, or that of grpc.WithAuthority
}

func newSharing(cfg Config) *sharing {
	s := &sharing{disabled: cfg.DisableHealthSharing, dialer: systemDialer, dialed: make(map[string]bool), named: make(map[string]bool)}
	s.dialer.handshakes = newHandshakes()
	if proxy.Disabled(cfg.DialOptions) {
		s.dialer.proxy = nil
	}
	if !s.disabled {
		s.identity = identities.acquire(cfg.TLS, cfg.Roots)
	}
	return s
}

func (s *sharing) close() { identities.release(s.identity) }

// dial is the client's dialer.
func (s *sharing) dial(ctx context.Context, address string) (net.Conn, error) {
	s.note(s.dialed, address)
	return s.dialer.dial(ctx, address)
}

// note adds to dialed or named.
func (s *sharing) note(set map[string]bool, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(set) >= maxNames {
		clear(set) // an endpoint does not share until it is dialed again
	}
	set[value] = true
}

// key implements balancer.Options.ShareKey.
func (s *sharing) key(a resolver.Address) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	security, _ := a.Attributes.Value(securityKey{}).(endpoint.Security)
	direct := s.dialer.proxy == nil // connections of others may lead through a proxy
	switch {
	case s.disabled || !s.dialed[a.Addr] || !s.named[a.ServerName] || security == endpoint.TLS && s.identity == nil:
		return ""
	case security != endpoint.TLS:
		return fmt.Sprintf("plaintext %t %s", direct, a.Addr)
	default:
		return fmt.Sprintf("tls %t %p %s %s", direct, s.identity, a.ServerName, a.Addr)
	}
}

// tlsIdentity is a way to authenticate servers and the client. Clients with TLS configurations
// that do both alike have the same one.
type tlsIdentity struct {
	config  *tls.Config
	roots   *x509.CertPool
	rotates bool // roots are those of the first handshake, and may change
	users   int
}

// identities holds the identities of all clients of this process.
var identities tlsIdentities

type tlsIdentities struct {
	mu  sync.Mutex
	all []*tlsIdentity
}

// acquire returns the identity of a configuration; nil if it contains functions, which
// cannot be compared.
func (t *tlsIdentities) acquire(config *tls.Config, roots func() *x509.CertPool) *tlsIdentity {
	if config == nil {
		config = &tls.Config{} //nolint:gosec // it is compared and not used
	}
	if config.VerifyPeerCertificate != nil || config.VerifyConnection != nil || config.Time != nil {
		return nil
	}
	id := &tlsIdentity{config: config, roots: config.RootCAs, rotates: roots != nil}
	if roots != nil {
		id.roots = roots()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.IndexFunc(t.all, id.same); i >= 0 {
		id = t.all[i]
	} else {
		t.all = append(t.all, id)
	}
	id.users++
	return id
}

func (t *tlsIdentities) release(id *tlsIdentity) {
	if id == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if id.users--; id.users == 0 {
		t.all = slices.DeleteFunc(t.all, func(o *tlsIdentity) bool { return o == id })
	}
}

// same reports whether two configurations authenticate servers alike, and the client by the
// same certificates. Functions that return the client's certificate are not compared, so clients
// that have one share: their certificates may change, and decide only whether a connection is made,
// which is no evidence while another client is connected. A proxy that refuses one client's certificate
// after the handshake, with HTTP status 400, 401 or 403, is not used by the others either.
func (id *tlsIdentity) same(o *tlsIdentity) bool {
	a, b := id.config, o.config
	return slices.EqualFunc(a.Certificates, b.Certificates, sameLeaf) &&
		(a.GetClientCertificate == nil) == (b.GetClientCertificate == nil) &&
		a.ServerName == b.ServerName && a.InsecureSkipVerify == b.InsecureSkipVerify &&
		a.MinVersion == b.MinVersion && a.MaxVersion == b.MaxVersion &&
		slices.Equal(a.CipherSuites, b.CipherSuites) && id.roots.Equal(o.roots) && id.rotates == o.rotates
}

func sameLeaf(a, b tls.Certificate) bool {
	return len(a.Certificate) > 0 && len(b.Certificate) > 0 && bytes.Equal(a.Certificate[0], b.Certificate[0])
}
