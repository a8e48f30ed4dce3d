package endpoint

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestParse pins the mapping that etcd's official client has for each form that
// it accepts (client/v3/internal/endpoint of release 3.7.3).
func TestParse(t *testing.T) {
	const ipv6 = "[2001:db8:1f70::999:de8:7648:6e8]:100"
	tests := []struct {
		raw, address, serverName string
		security                 Security
	}{
		// Bare addresses are passed on unchanged, with or without a port.
		{"127.0.0.1", "127.0.0.1", "127.0.0.1", Configured},
		{"localhost", "localhost", "localhost", Configured},
		{"localhost:8080", "localhost:8080", "localhost:8080", Configured},
		{"etcd.io", "etcd.io", "etcd.io", Configured},
		{"etcd.io:etcd-client", "etcd.io:etcd-client", "etcd.io:etcd-client", Configured},
		{":2379", ":2379", ":2379", Configured},
		{ipv6, ipv6, ipv6, Configured},
		{"[::1]", "[::1]", "[::1]", Configured},
		{"::1", "::1", "::1", Configured},

		// URLs: the path, query and user are dropped, the scheme decides.
		{"http://127.0.0.1", "127.0.0.1", "127.0.0.1", Plaintext},
		{"http://127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1:8080", Plaintext},
		{"http://etcd.io/abc", "etcd.io", "etcd.io", Plaintext},
		{"http://" + ipv6 + "/", ipv6, ipv6, Plaintext},
		{"http://:2379", ":2379", ":2379", Plaintext},
		{"http://[fe80::1%25eth0]:2379", "[fe80::1%eth0]:2379", "[fe80::1%eth0]:2379", Plaintext},
		{"https://127.0.0.1", "127.0.0.1", "127.0.0.1", TLS},
		{"https://localhost:20000", "localhost:20000", "localhost:20000", TLS},
		{"https://localhost:20000/a/b?c=d#e", "localhost:20000", "localhost:20000", TLS},
		{"HTTPS://localhost:20000", "localhost:20000", "localhost:20000", TLS},
		{"https://root:secret@etcd.io:2379", "etcd.io:2379", "etcd.io:2379", TLS},
		{"https://root:sec,ret@etcd.io:2379/a,b", "etcd.io:2379", "etcd.io:2379", TLS},

		// Unix sockets relative to the working directory, in both notations.
		{"unix:127.0.0.1", "unix:127.0.0.1", "127.0.0.1", Configured},
		{"unix:127.0.0.1:8080", "unix:127.0.0.1:8080", "127.0.0.1:8080", Configured},
		{"unix://127.0.0.1:8080", "unix:127.0.0.1:8080", "127.0.0.1:8080", Configured},
		{"unix:run/etcd.sock", "unix:run/etcd.sock", "etcd.sock", Configured},
		{"unix://run/etcd.sock", "unix:run/etcd.sock", "etcd.sock", Configured},
		{"unix:odd-name#123$456", "unix:odd-name#123$456", "odd-name#123$456", Configured},
		{"unix:@abstract", "unix:@abstract", "@abstract", Configured},
		{"unixs:127.0.0.1:8080", "unix:127.0.0.1:8080", "127.0.0.1:8080", TLS},
		{"unixs://127.0.0.1:8080", "unix:127.0.0.1:8080", "127.0.0.1:8080", TLS},

		// Unix sockets at absolute paths.
		{"unix:///run/etcd.sock", "unix:///run/etcd.sock", "etcd.sock", Configured},
		{"unix:///run/etcd:1234", "unix:///run/etcd:1234", "etcd:1234", Configured},
		{"unix:/run/etcd.sock", "unix:/run/etcd.sock", "etcd.sock", Configured},
		{"unix:///run/my etcd/sock", "unix:///run/my etcd/sock", "sock", Configured},
		{"unixs:///run/etcd.sock", "unix:///run/etcd.sock", "etcd.sock", TLS},
		{"unixs:/run/etcd.sock", "unix:/run/etcd.sock", "etcd.sock", TLS},
	}
	for _, tt := range tests {
		t.Run(tt.raw, func(t *testing.T) {
			got, err := Parse(tt.raw)
			require.NoError(t, err)
			assert.Equal(t, Endpoint{
				Raw: tt.raw, Address: tt.address, ServerName: tt.serverName, Security: tt.security,
			}, got)
		})
	}
}

func TestParseErrors(t *testing.T) {
	const unprintableText = "whitespace or a control character"
	tests := []struct{ raw, message string }{
		{"", "endpoint is empty"},
		{" localhost:2379", "starts or ends with whitespace"},
		{"unix:sock\n", "starts or ends with whitespace"},
		{"local host:2379", unprintableText},
		{"a:2379,\tb:2379", unprintableText},
		{"http://a\x00b:2379", unprintableText},
		{"a:2379,b:2379", "separate strings"},
		{"http://a:2379,http://b:2379", "separate strings"},
		{"https://root:secret@a:2379,b:2379/v3", "separate strings"},
		{"http://[fe80::1%25a%20b]:2379", unprintableText},
		{"unix:a\x00b", "contains a control character"},
		{"unix:///run/a%00b", "contains a control character"},
		{"ftp://localhost:2379", `unknown scheme "ftp"`},
		{"dns://8.8.8.8/etcd.io", `unknown scheme "dns"`},
		{"dns:///etcd.io:2379", `unknown scheme "dns"`},
		{"://localhost:2379", "not a valid URL"},
		{"http://[::1", "not a valid URL"},
		{"http://localhost:port", `invalid port ":port"`},
		{"http://", `write "http://host:port"`},
		{"https:///v3/kv", `write "https://host:port"`},
		{"https://root:secret@", "no host"},
		{"http:localhost:2379", `write "http://host:port"`},
		{"https:/localhost:2379", `write "https://host:port"`},
		{"localhost:2379/", "bare address"},
		{"root:secret@localhost:2379", "bare address"},
		{"unix:", "names no socket"},
		{"unix://", "names no socket"},
		{"unix:///", "names no socket"},
		{"unixs:/", "names no socket"},
		{"unix:///?name", "names no socket"},
		{"unix:///run/%zz", "not a valid URL path"},
	}
	for _, tt := range tests {
		t.Run(tt.raw, func(t *testing.T) {
			got, err := Parse(tt.raw)
			require.ErrorContains(t, err, tt.message)
			assert.Zero(t, got)
		})
	}
}

func TestPasswordIsNeverShown(t *testing.T) {
	for _, raw := range []string{
		"https://root:secret@",
		"ftp://root:secret@localhost",
		"http://root:secret/0@localhost:2379",
		"http://root:%secret@localhost:2379",
		"http://root:secret@localhost:port",
		"http://root:secret@a@b c",
		"root:secret@localhost:2379",
		"root:secret://0@localhost:2379",
	} {
		_, err := Parse(raw)
		require.Error(t, err, raw)
		assert.NotContains(t, err.Error(), "secret", raw)
	}

	e, err := Parse("https://root:secret@localhost:2379")
	require.NoError(t, err)
	assert.Equal(t, "https://xxxxx@localhost:2379", e.String())
	assert.NotContains(t, fmt.Sprintf("%v %+v %s", e, e, e), "secret")
}

// TestDialTarget pins the targets that gRPC's own dialer uses for an Address.
func TestDialTarget(t *testing.T) {
	tests := []struct{ address, network, addr string }{
		{"localhost:2379", "tcp", "localhost:2379"},
		{"localhost", "tcp", "localhost"},
		{"[::1]:2379", "tcp", "[::1]:2379"},
		{"unix:sock", "unix", "sock"},
		{"unix:run/sock:1", "unix", "run/sock:1"},
		{"unix:odd#name?", "unix", "odd#name?"},
		{"unix:a%20b", "unix", "a%20b"},
		{"unix:/run/sock", "unix", "/run/sock"},
		{"unix:///run/sock", "unix", "/run/sock"},
		{"unix:///run/sock:1", "unix", "/run/sock:1"},
		{"unix:///run/a%20b", "unix", "/run/a b"},
		{"unix:///run/a b", "unix", "/run/a b"},
		{"unix:///run/a?b#c", "unix", "/run/a"},
		{"unix:///run/%zz", "unix", "///run/%zz"},
		{"unix://sock", "unix", "sock"},
	}
	for _, tt := range tests {
		network, addr := DialTarget(tt.address)
		assert.Equal(t, tt.network, network, tt.address)
		assert.Equal(t, tt.addr, addr, tt.address)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "localhost:2379", "[::1]:2379", "http://a:1/b", "https://u:p@a", "ftp://a", "http://[fe80::1%25a%20b]",
		"unix:a", "unix://a", "unix:///a/b", "unixs:///a%2fb", "unix:/?", "unix:///..", "://", "a://b\x00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Parse(s)
		if err != nil {
			if e != (Endpoint{}) {
				t.Fatalf("Parse(%q) = %#v beside the error %v", s, e, err)
			}
			return
		}
		network, addr := DialTarget(e.Address)
		switch {
		case e.Raw != s:
			t.Fatalf("Parse(%q).Raw = %q", s, e.Raw)
		case e.Address == "", e.ServerName == "", addr == "":
			t.Fatalf("Parse(%q) = %#v, dialed as %q: a part is empty", s, e, addr)
		case strings.ContainsFunc(addr, unicode.IsControl):
			t.Fatalf("Parse(%q) is dialed as %q, which holds a control character", s, addr)
		case network == "unix" != (strings.HasPrefix(s, "unix:") || strings.HasPrefix(s, "unixs:")):
			t.Fatalf("Parse(%q) is dialed over %s", s, network)
		}
		again, err := Parse(e.Address)
		if err != nil || again.Address != e.Address || again.ServerName != e.ServerName {
			t.Fatalf("Parse(%q).Address = %q, which parses as %#v, %v", s, e.Address, again, err)
		}
	})
}
