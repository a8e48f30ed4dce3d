package dns

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
	"google.golang.org/grpc/resolver"
)

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

// No message of a server makes the recorder panic.
func FuzzRecorder(f *testing.F) {
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("_a._tcp.test."), Type: dnsmessage.TypeSRV, Class: dnsmessage.ClassINET}},
	}
	packed, err := query.Pack()
	require.NoError(f, err)
	query.Response = true
	query.Answers = []dnsmessage.Resource{service("_a._tcp.test.", "b.test.", 1, 30)}
	query.Additionals = []dnsmessage.Resource{addr("b.test.", "10.0.0.1", 5), addr("b.test.", "2001:db8::1", 5)}
	reply, err := query.Pack()
	require.NoError(f, err)
	f.Add(reply)
	f.Fuzz(func(t *testing.T, b []byte) {
		recorder := newRecorder()
		recorder.observe(recorder.sending(packed), b)
		require.GreaterOrEqual(t, int64(recorder.validity()), int64(0))
		_ = recorder.incomplete("")
		recorder.hasNoRecords("_a._tcp.test.")
		recorder.failedFamily()
	})
}
