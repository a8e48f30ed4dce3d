package channel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/endpoint"
)

// transportCredentials secures each connection as its own endpoint asks: a
// client may have http, https and unix endpoints side by side. Which of them it
// may have is [security]'s to say.
type transportCredentials struct {
	anyTLS bool                             // the client has an endpoint with TLS from the start
	config *tls.Config                      // nil if the client has none
	roots  func() *x509.CertPool            // read at each handshake; nil to use config's
	secure credentials.TransportCredentials // config's, for what does not depend on the roots
	plain  credentials.TransportCredentials
	info   credentials.ProtocolInfo
}

// newTransportCredentials takes the TLS configuration of the client, if it has
// one, and whether its first endpoints use TLS: grpc asks for one answer when
// it checks options such as call credentials that insist on TLS.
func newTransportCredentials(config *tls.Config, roots func() *x509.CertPool, anyTLS bool) credentials.TransportCredentials {
	c := &transportCredentials{
		anyTLS: anyTLS,
		config: config,
		roots:  roots,
		secure: credentials.NewTLS(config),
		plain:  insecure.NewCredentials(),
	}
	c.info = c.plain.Info()
	if anyTLS {
		c.info = c.secure.Info()
	}
	return c
}

func (c *transportCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if !c.usesTLS(ctx) {
		return c.plain.ClientHandshake(ctx, authority, conn)
	}
	return c.current().ClientHandshake(ctx, authority, conn)
}

// usesTLS obeys the address. One that says nothing comes from a resolver that is not
// ours, and nobody named it: a client with TLS speaks to it in TLS.
func (c *transportCredentials) usesTLS(ctx context.Context) bool {
	attrs := credentials.ClientHandshakeInfoFromContext(ctx).Attributes
	if s, ok := attrs.Value(securityKey{}).(endpoint.Security); ok {
		return s == endpoint.TLS
	}
	return c.config != nil || c.anyTLS
}

// current returns TLS credentials with the certificate authorities of this moment.
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
	c.info.ServerName = name //nolint:staticcheck // the method is deprecated as well, but the interface has it
	return nil
}
