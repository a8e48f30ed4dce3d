package dns

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/internal/grpctest"
)

func TestTargets(t *testing.T) {
	host := func(server, name string, port uint16, authority string) target {
		return target{question: question{server: server, name: name}, port: port, authority: authority}
	}
	literal := func(addr string, port uint16, authority string) target {
		return target{literal: netip.MustParseAddr(addr), port: port, authority: authority}
	}
	srv := func(server, name, authority string) target {
		return target{question: question{server: server, name: name, srv: true}, authority: authority}
	}
	for s, want := range map[string]target{
		"dns:///greeter.prod:50051":         host("", "greeter.prod", 50051, "greeter.prod:50051"),
		"dns:greeter.prod:50051":            host("", "greeter.prod", 50051, "greeter.prod:50051"),
		"dns:///greeter":                    host("", "greeter", 443, "greeter"),
		"dns:///Greeter.Example.com.:1":     host("", "greeter.example.com.", 1, "Greeter.Example.com:1"),
		"dns:///greeter:https":              host("", "greeter", 443, "greeter:https"),
		"dns:///:50051":                     host("", "localhost", 50051, "localhost:50051"),
		"dns:///_odd.example.com:1":         host("", "_odd.example.com", 1, "_odd.example.com:1"),
		"dns://10.0.0.10/greeter:1":         host("10.0.0.10:53", "greeter", 1, "greeter:1"),
		"dns://ns.example.com:5353/a":       host("ns.example.com:5353", "a", 443, "a"),
		"dns://[::1]/a":                     host("[::1]:53", "a", 443, "a"),
		"dns://[::1]:5353/a":                host("[::1]:5353", "a", 443, "a"),
		"dns:///10.1.2.3:80":                literal("10.1.2.3", 80, "10.1.2.3:80"),
		"dns:///10.1.2.3":                   literal("10.1.2.3", 443, "10.1.2.3"),
		"dns:///[2001:db8::1]:80":           literal("2001:db8::1", 80, "[2001:db8::1]:80"),
		"dns:///[2001:db8::1]":              literal("2001:db8::1", 443, "[2001:db8::1]"),
		"dns:///2001:db8::1":                literal("2001:db8::1", 443, "2001:db8::1"),
		"dns:///[fe80::1%25eth0]:80":        literal("fe80::1%eth0", 80, "[fe80::1%25eth0]:80"),
		"dns:///[::ffff:10.1.2.3]:80":       literal("10.1.2.3", 80, "[::ffff:10.1.2.3]:80"),
		"dns:///_grpc._tcp.Svc.ns":          srv("", "_grpc._tcp.svc.ns", "svc.ns"),
		"dns:///_grpc._tcp.a.example.com.":  srv("", "_grpc._tcp.a.example.com.", "a.example.com"),
		"dns:///Billing.Service.consul?srv": srv("", "billing.service.consul", "billing.service.consul"),
		"dns:///_grpc._tcp.svc?srv":         srv("", "_grpc._tcp.svc", "svc"),
		"dns://127.0.0.1:53/_grpc._tcp.svc": srv("127.0.0.1:53", "_grpc._tcp.svc", "svc"),
	} {
		got, err := parseTarget(grpctest.Target(t, s))
		require.NoError(t, err, s)
		if want.literal.IsValid() {
			want.server, got.server = "", ""
		}
		assert.Equal(t, want, got, s)
		assert.Equal(t, want.authority, newBuilder(t, Config{}).(resolver.AuthorityOverrider).OverrideAuthority(grpctest.Target(t, s)), s)
	}
	// gRPC leaves the user of HTTPS_PROXY in the target of the proxy.
	got, err := parseTarget(resolver.Target{URL: url.URL{Scheme: "dns", User: url.UserPassword("me", "secret"), Path: "/proxy:3128"}})
	require.NoError(t, err)
	assert.Equal(t, host("", "proxy", 3128, "proxy:3128"), got)
}

func TestBadTargets(t *testing.T) {
	long := strings.Repeat("a", 64)
	for s, want := range map[string]string{
		"dns:///":                    "it names no host; the form is dns:///host:port, with three slashes, or dns://server/host:port",
		"dns://greeter:50051":        "it names no host; the form is dns:///host:port, with three slashes, or dns://server/host:port",
		"dns://me:secret@ns/a":       "user names are not supported; the form is dns://server:port/host:port",
		"dns:///a:1?b=c":             "only ?srv may follow, after a name without a port",
		"dns:///a:1?srv":             `"a" is the name of SRV records, which have the ports; remove ":1"`,
		"dns:///10.0.0.1?srv":        `"10.0.0.1" is an address; ?srv needs a name`,
		"dns:///a:":                  `"a:" ends with a colon; add a port, or remove the colon for port 443`,
		"dns:///a:0":                 `"0" is not a TCP port; it has to be a number from 1 to 65535, or a name in the system's list of services`,
		"dns:///a:65536":             `"65536" is not a TCP port; it has to be a number from 1 to 65535, or a name in the system's list of services`,
		"dns:///a:1:2":               `"a:1:2" is not host:port; an IPv6 address with a port needs brackets: [::1]:443`,
		"dns:///[fe80::1%25a%20b]:1": `"a b" is not the name of a network interface`,
		"dns:///[a]":                 `"[a]" is not an IPv6 address`,
		"dns:///[a]:80":              `"[a]" is not an IPv6 address`,
		"dns:///a/b":                 `"a/b" is not a domain name: '/' is not allowed; international names are written in Punycode`,
		"dns:///bücher.example":      `"bücher.example" is not a domain name: 'ü' is not allowed; international names are written in Punycode`,
		"dns:///a..b":                `"a..b" is not a domain name: a label is empty`,
		"dns:///-a.b":                `"-a.b" is not a domain name: the label "-a" begins or ends with '-'`,
		"dns:///" + long:             `"` + long + `" is not a domain name: a label has more than 63 bytes`,
		"dns:///_grpc._tcp.svc:80":   `"_grpc._tcp.svc" is the name of SRV records, which have the ports; remove ":80"`,
	} {
		_, err := parseTarget(grpctest.Target(t, s))
		if assert.Error(t, err, s) {
			assert.True(t, strings.HasSuffix(err.Error(), ": "+want), "%s: %v", s, err)
			assert.NotContains(t, err.Error(), "secret")
		}
	}
	_, err := parseTarget(grpctest.Target(t, "dns:///"+strings.Repeat("a.", 127)+"a"))
	require.ErrorContains(t, err, "is too long; the maximum is 253")
	// gRPC asks for an authority before it builds the resolver, and cannot be given an error.
	require.Equal(t, "a%2Fb", authorityOf(grpctest.Target(t, "dns:///a/b")))
}

func TestConfigDefaults(t *testing.T) {
	require.Equal(t, 200*time.Millisecond, Config{Interval: 200 * time.Millisecond}.withDefaults().MinInterval)
	require.Equal(t, "dns", newBuilder(t, Config{}).Scheme())
	require.Equal(t, "qdns", newBuilder(t, Config{Scheme: "qdns"}).Scheme())
	for f, want := range map[Family]string{FamilyAuto: "auto", FamilyIPv4: "IPv4", FamilyIPv6: "IPv6", FamilyBoth: "both"} {
		require.Equal(t, want, f.String())
	}
}

func TestConfigErrorsNameTheField(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Scheme: "DNS"}, `dns: Config.Scheme is "DNS"; it has to begin with a lower-case letter, followed by those, digits, '+', '-' or '.'`},
		{Config{Server: "10.0.0.10:dns:53"}, `dns: Config.Server: DNS server "10.0.0.10:dns:53": "10.0.0.10:dns:53" is not host:port; an IPv6 address with a port needs brackets: [::1]:53`},
		{Config{Server: "a b"}, `dns: Config.Server: DNS server "a b": "a b" is not a domain name: ' ' is not allowed; international names are written in Punycode`},
		{Config{Server: "10.0.0.10", Resolver: newScript()}, `dns: Config.Server ("10.0.0.10") and Config.Resolver exclude each other; remove one`},
		{Config{Interval: 5}, `dns: Config.Interval is 5ns; it has to be at least 10ms, or 0 for 5s`},
		{Config{Interval: -time.Second}, `dns: Config.Interval is -1s; it has to be at least 10ms, or 0 for 5s`},
		{Config{MinInterval: 6 * time.Second}, `dns: Config.MinInterval is 6s; it has to be at least 10ms and at most Interval (5s), or 0 for 1s`},
		{Config{MinInterval: time.Millisecond}, `dns: Config.MinInterval is 1ms; it has to be at least 10ms and at most Interval (5s), or 0 for 1s`},
		{Config{Timeout: -1}, `dns: Config.Timeout is -1ns; it has to be at least 10ms, or 0 for 5s`},
		{Config{Family: 9}, `dns: Config.Family is 9, which is not a Family of this package`},
	} {
		_, err := NewBuilder(c.cfg)
		assert.EqualError(t, err, c.want)
	}
}

// Any target is parsed or rejected, and has a valid authority.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{
		"dns:///svc:80", "dns://ns:53/svc", "dns:///_grpc._tcp.svc", "dns:///[::1]:80", "dns:///[fe80::1%25eth0]", "dns:///:80", "dns:///a:b:c", "dns:",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		if err != nil {
			return
		}
		target := resolver.Target{URL: *u}
		require.False(t, strings.ContainsAny(authorityOf(target), " /?#\x00\n"), "%q", authorityOf(target))
		parsed, err := parseTarget(target)
		if err != nil {
			require.Contains(t, err.Error(), "dns: bad target ")
			return
		}
		require.NotEqual(t, parsed.srv, parsed.port != 0, "SRV records have the ports, and nothing else does")
		require.NotEqual(t, parsed.literal.IsValid(), parsed.name != "")
	})
}
