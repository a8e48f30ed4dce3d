// Package endpoint interprets etcd endpoint strings: the address to dial, the TLS server name and
// :authority, and whether TLS is used.
//
// It accepts the forms that etcd and its official Go client accept:
//
//	host:port, host, [ipv6]:port   TLS if the client has a TLS configuration
//	http://host:port/any/path      never TLS; the path is dropped
//	https://host:port/any/path     always TLS; the path is dropped
//	unix:rel/socket                Unix socket, TLS if the client has a TLS configuration
//	unix://rel/socket              the same, in etcd's older notation
//	unix:///abs/socket             Unix socket at an absolute path
//	unixs:…                        like unix:, and always TLS
//
// Every endpoint is interpreted separately: an http endpoint is dialed in plaintext and an https
// endpoint with TLS, regardless of their order.
package endpoint

import "strings"

// Security says whether connections to an endpoint use TLS.
type Security uint8

const (
	// Configured means TLS if the client has a TLS configuration. It is what a
	// bare address and unix: mean.
	Configured Security = iota
	// Plaintext means never TLS, even if the client has a TLS configuration. It
	// is what http: means.
	Plaintext
	// TLS means always TLS, with Go's default configuration if the client has
	// none. It is what https: and unixs: mean.
	TLS
)

// String returns the name of s in lower case.
func (s Security) String() string {
	switch s {
	case Plaintext:
		return "plaintext"
	case TLS:
		return "tls"
	default:
		return "configured"
	}
}

// Endpoint is an interpreted endpoint string. Parse makes one.
type Endpoint struct {
	// Raw is the string as given. It may hold a password in front of an "@",
	// which etcd ignores; String returns a form that is safe to log.
	Raw string
	// Address is the address for gRPC and for a user's dialer: "host:port", "unix:rel" or
	// "unix:///abs". DialTarget splits it for net.Dial.
	Address string
	// ServerName is the name that the server's certificate is verified for, and the :authority of
	// each call: "host:port" (TLS ignores the port), or the base name of the socket.
	ServerName string
	// Security says whether connections use TLS.
	Security Security
}

// UseTLS reports whether a connection to e uses TLS. configured says whether
// the client has a TLS configuration.
func (e Endpoint) UseTLS(configured bool) bool {
	return e.Security == TLS || e.Security == Configured && configured
}

// String returns the endpoint as given, without a user name or password.
func (e Endpoint) String() string { return Redact(e.Raw) }

// Redact hides what may be a user name and password in an endpoint, a list of endpoints or a URL: everything between
// the scheme and the last "@". In a Unix socket's path "@" has no such meaning.
func Redact(s string) string {
	if _, _, isUnix := cutUnix(s); isUnix {
		return s
	}
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return s
	}
	scheme := ""
	if before, _, ok := strings.Cut(s[:at], "://"); ok && !strings.Contains(before, ":") {
		scheme = before + "://"
	}
	return scheme + "xxxxx" + s[at:]
}
