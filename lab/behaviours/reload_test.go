package behaviours_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/testpki"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// TestCertificateRotation replaces the CA and the server's certificate of a running cluster. etcd reads its certificate
// at each handshake, so neither it nor the client is restarted.
func TestCertificateRotation(t *testing.T) {
	t.Parallel()
	cluster := labtest.Start(t, lab.Config{Members: 1, TLS: true})
	files := cluster.TLSFiles()
	member := cluster.Members()[0]

	cfg, err := clientv3.NewClientConfig(&clientv3.ConfigSpec{
		Endpoints: cluster.Endpoints(),
		Secure:    &clientv3.SecureConfig{Cacert: files.CA, Cert: files.ClientCert, Key: files.ClientKey},
	}, zap.NewNop())
	require.NoError(t, err)
	c := labtest.Client(t, *cfg)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = c.Put(ctx, "rotation", "1")
	require.NoError(t, err)

	rotate(t, files)
	cluster.ClientLink(member).Cut() // what is connected stays trusted: the next connection counts
	cluster.ClientLink(member).Heal()
	_, err = tls.Dial("tcp", trimScheme(member.Endpoint()), cluster.ClientTLS())
	require.ErrorAs(t, err, new(x509.UnknownAuthorityError), "the cluster still serves with its first certificate")
	resp, err := c.Get(ctx, "rotation")
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)

	// A CA file that cannot be read leaves the last good one in force.
	require.NoError(t, os.WriteFile(files.CA, []byte("not PEM"), 0o600))
	cluster.ClientLink(member).Cut()
	cluster.ClientLink(member).Heal()
	_, err = c.Get(ctx, "rotation")
	require.NoError(t, err)
}

// rotate writes a new CA, and a server certificate of it, over the old ones.
func rotate(t *testing.T, files lab.TLSFiles) {
	t.Helper()
	ca := testpki.New(t, "second CA")
	certificate, key := testpki.PairPEM(t, ca.Issue(t, "second certificate", func(c *x509.Certificate) { c.DNSNames = []string{"localhost"} }))
	for path, text := range map[string][]byte{files.CA: ca.PEM(), files.ServerCert: certificate, files.ServerKey: key} {
		require.NoError(t, os.WriteFile(path, text, 0o600))
	}
}
