package channel

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
)

func TestClientsThatAuthenticateAlikeHaveOneIdentity(t *testing.T) {
	leaf := func(raw string) []tls.Certificate {
		return []tls.Certificate{{Certificate: [][]byte{[]byte(raw), []byte("intermediate")}}}
	}
	supply := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return nil, nil }
	for name, tt := range map[string]struct {
		a, b *tls.Config
		same bool
	}{
		"none":                   {nil, nil, true},
		"server name":            {&tls.Config{ServerName: "a"}, &tls.Config{ServerName: "b"}, false},
		"roots":                  {&tls.Config{RootCAs: x509.NewCertPool()}, nil, false},
		"same certificate":       {&tls.Config{Certificates: leaf("valid")}, &tls.Config{Certificates: leaf("valid")}, true},
		"another certificate":    {&tls.Config{Certificates: leaf("valid")}, &tls.Config{Certificates: leaf("expired")}, false},
		"no certificate":         {&tls.Config{Certificates: leaf("valid")}, nil, false},
		"function":               {&tls.Config{GetClientCertificate: supply}, &tls.Config{GetClientCertificate: supply}, true},
		"function and no other":  {&tls.Config{GetClientCertificate: supply}, nil, false},
		"unknown authentication": {&tls.Config{VerifyConnection: func(tls.ConnectionState) error { return nil }}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			var all tlsIdentities
			a, b := all.acquire(tt.a, nil), all.acquire(tt.b, nil)
			assert.Equal(t, tt.same, a == b)
			all.release(a)
			all.release(b)
			assert.Empty(t, all.all)
		})
	}
}

// Behind one address there may be a server for each authority, and another one for those who use no proxy.
func TestClientsOfOtherServersShareNothing(t *testing.T) {
	m := startMember(t, "http://", nil)
	key := func(opts ...grpc.DialOption) string {
		c := newTestChannel(t, Config{Endpoints: []string{m.endpoint}, DialOptions: opts})
		assert.NoError(t, get(t, c))
		return c.sharing.key(publishedAddress(t, m.endpoint, false))
	}
	first := key()
	assert.NotEmpty(t, first)
	assert.Equal(t, first, key())
	assert.NotEqual(t, first, key(grpc.WithNoProxy()))
	assert.Empty(t, key(grpc.WithAuthority("a.example")))
}
