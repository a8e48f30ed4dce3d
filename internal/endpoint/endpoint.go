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

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
	"unicode"
)

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

// Parse interprets an endpoint string. A bare host without a port is returned
// unchanged, as the official client does; dialing it reports the missing port.
//
// It returns an error, which never shows a password, for an empty string,
// whitespace and control characters (a Unix socket's path may hold spaces), several
// endpoints separated by commas, a malformed URL, a scheme other than http, https, unix and unixs, a URL
// without a host, and a Unix socket without a path.
func Parse(s string) (Endpoint, error) {
	if s == "" {
		return Endpoint{}, errors.New(`endpoint is empty: write "host:port" or "https://host:port"`)
	}
	e, err := interpret(s)
	if err != nil {
		return Endpoint{}, fmt.Errorf("endpoint %q: %w", Redact(s), err)
	}
	e.Raw = s
	return e, nil
}

func interpret(s string) (Endpoint, error) {
	if s != strings.TrimSpace(s) {
		return Endpoint{}, errors.New("it starts or ends with whitespace: remove it")
	}
	if sec, rest, ok := cutUnix(s); ok {
		return parseUnix(sec, rest)
	}
	if strings.ContainsFunc(s, unprintable) {
		return Endpoint{}, errUnprintable
	}
	if strings.Contains(authority(s), ",") {
		return Endpoint{}, errors.New("it contains a comma: give several endpoints as separate strings")
	}
	if strings.Contains(s, "://") {
		return parseURL(s)
	}
	return parseBare(s)
}

var errUnprintable = errors.New("it contains whitespace or a control character: remove it, and give several endpoints as separate strings")

// authority returns the part of a bare address or URL that names hosts, without a user name
// and password.
func authority(s string) string {
	if _, rest, ok := strings.Cut(s, "://"); ok {
		s = rest
	}
	if i := strings.IndexAny(s, "/?#"); i >= 0 {
		s = s[:i]
	}
	return s[strings.LastIndexByte(s, '@')+1:]
}

func unprintable(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// cutUnix splits a Unix socket endpoint into its security and what follows the
// colon of its scheme.
func cutUnix(s string) (sec Security, rest string, ok bool) {
	if rest, ok = strings.CutPrefix(s, "unix:"); ok {
		return Configured, rest, true
	}
	rest, ok = strings.CutPrefix(s, "unixs:")
	return TLS, rest, ok
}

// parseUnix interprets what follows "unix:" or "unixs:". etcd's older notation
// unix://rel names the same socket as gRPC's unix:rel.
func parseUnix(sec Security, rest string) (Endpoint, error) {
	if p, ok := strings.CutPrefix(rest, "//"); ok && !strings.HasPrefix(p, "/") {
		rest = p
	}
	address := "unix:" + rest
	if strings.HasPrefix(rest, "/") {
		if _, err := url.Parse(address); err != nil {
			return Endpoint{}, errors.New(`its path is not a valid URL path: escape "%" as "%25", and leave control characters out`)
		}
	}
	_, socket := DialTarget(address)
	if strings.Trim(socket, "/") == "" {
		return Endpoint{}, errors.New(`it names no socket: write "unix:relative/path" or "unix:///absolute/path"`)
	}
	if strings.ContainsFunc(socket, unicode.IsControl) {
		return Endpoint{}, errors.New("its path contains a control character: remove it")
	}
	return Endpoint{Address: address, ServerName: path.Base(rest), Security: sec}, nil
}

func parseURL(s string) (Endpoint, error) {
	u, err := url.Parse(s)
	if err != nil {
		return Endpoint{}, malformed(s, err)
	}
	sec := Plaintext
	switch u.Scheme {
	case "http":
	case "https":
		sec = TLS
	default:
		return Endpoint{}, fmt.Errorf(`unknown scheme %q: use http, https, unix or unixs, or write "host:port", or the name that your dialer takes, alone`, u.Scheme)
	}
	if u.Host == "" {
		return Endpoint{}, fmt.Errorf(`it has no host: write "%s://host:port"`, u.Scheme)
	}
	if strings.ContainsFunc(u.Host, unprintable) {
		return Endpoint{}, errUnprintable
	}
	return Endpoint{Address: u.Host, ServerName: u.Host, Security: sec}, nil
}

// malformed explains why net/url refused s. The reason that net/url gives can
// quote a part of a password, so it is left out if there may be one.
func malformed(s string, err error) error {
	const advice = `write "http://host:port", with an IPv6 address in brackets`
	if reason, ok := errors.AsType[*url.Error](err); ok && !strings.Contains(s, "@") {
		return fmt.Errorf("it is not a valid URL (%w): %s", reason.Err, advice)
	}
	return errors.New("it is not a valid URL: " + advice)
}

func parseBare(s string) (Endpoint, error) {
	for _, scheme := range []string{"http", "https"} {
		if strings.HasPrefix(s, scheme+":") {
			return Endpoint{}, fmt.Errorf(`it has no "//" after the scheme: write "%s://host:port"`, scheme)
		}
	}
	if i := strings.IndexAny(s, "/?#@"); i >= 0 {
		return Endpoint{}, fmt.Errorf(`%q does not belong into a bare address: write "host:port" alone, or a whole URL such as "https://host:port"`, s[i])
	}
	return Endpoint{Address: s, ServerName: s, Security: Configured}, nil
}

// DialTarget splits an Address into the network and address that net.Dial
// takes: "tcp" and "host:port", or "unix" and the path of a socket.
//
// An absolute path is read as the path of a URL, as gRPC and the etcd server
// do: escapes such as %20 are decoded, and what follows "?" or "#" is left
// out. A relative path is taken as it is.
func DialTarget(address string) (network, addr string) {
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return "tcp", address
	}
	if !strings.HasPrefix(path, "/") {
		return "unix", path
	}
	u, err := url.Parse(address)
	if err != nil {
		return "unix", path
	}
	return "unix", cmp.Or(u.Path, u.Host)
}
