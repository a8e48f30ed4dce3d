// Package credentials has the gRPC credentials of an etcd client: TLS for its
// connections, and the authentication token for its calls. A client of package
// clientv3 needs none of it; this package is for programs that make gRPC
// connections to etcd of their own.
package credentials

import (
	"context"
	"crypto/tls"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/credentials"
)

// NewTransportCredential returns credentials that secure connections with TLS, on
// either side of them. The configuration is copied; nil means the defaults of
// package crypto/tls.
func NewTransportCredential(cfg *tls.Config) credentials.TransportCredentials {
	return credentials.NewTLS(cfg)
}

// PerRPCCredentialsBundle attaches a token to calls. The token can be replaced at
// any time. Its methods may be called concurrently.
type PerRPCCredentialsBundle interface {
	// UpdateAuthToken replaces the token, for every call that begins after it. An
	// empty one makes calls anonymous.
	UpdateAuthToken(token string)

	// PerRPCCredentials returns what attaches the token, for
	// grpc.WithPerRPCCredentials. It follows UpdateAuthToken.
	PerRPCCredentials() credentials.PerRPCCredentials
}

// NewPerRPCCredentialBundle returns a bundle without a token.
//
// Its token is sent over plaintext connections too, as etcd permits; use TLS to
// protect it. Printing or logging the bundle does not show the token.
func NewPerRPCCredentialBundle() PerRPCCredentialsBundle { return new(authToken) }

// authToken holds the token behind a pointer: package fmt prints the address of a
// nested pointer, whatever the verb.
type authToken struct {
	current atomic.Pointer[string]
}

func (t *authToken) UpdateAuthToken(token string) { t.current.Store(&token) }

func (t *authToken) PerRPCCredentials() credentials.PerRPCCredentials { return t }

// GetRequestMetadata implements credentials.PerRPCCredentials. The map is the
// caller's own: credentials that wrap these may add to it.
func (t *authToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token := t.current.Load()
	if token == nil || *token == "" {
		return nil, nil
	}
	return map[string]string{rpctypes.TokenFieldNameGRPC: *token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (t *authToken) RequireTransportSecurity() bool { return false }

// String implements fmt.Stringer without the token.
func (t *authToken) String() string { return "etcd auth token" }
