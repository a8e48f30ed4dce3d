package behaviours_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
)

// TestCertificateRotation replaces the CA and the server's certificate of a running cluster. etcd reads its certificate
// at each handshake, so neither it nor the client is restarted.
func TestCertificateRotation(t *testing.T) {
	t.Parallel()
	cluster, err := lab.Start(t.Context(), lab.Config{Members: 1, TLS: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	files := cluster.TLSFiles()
	member := cluster.Members()[0]

	cfg, err := clientv3.NewClientConfig(&clientv3.ConfigSpec{
		Endpoints: cluster.Endpoints(),
		Secure:    &clientv3.SecureConfig{Cacert: files.CA, Cert: files.ClientCert, Key: files.ClientKey},
	}, zap.NewNop())
	require.NoError(t, err)
	cfg.Logger = zap.NewNop()
	c, err := clientv3.New(*cfg)
	require.NoError(t, err)
	defer c.Close()
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
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "second CA"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	caKey := newKey(t)
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "second certificate"},
		NotBefore:    ca.NotBefore,
		NotAfter:     ca.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	serverKey := newKey(t)
	writeCertificate(t, files.CA, ca, ca, &caKey.PublicKey, caKey)
	writeCertificate(t, files.ServerCert, server, ca, &serverKey.PublicKey, caKey)
	der, err := x509.MarshalECPrivateKey(serverKey)
	require.NoError(t, err)
	writePEM(t, files.ServerKey, "EC PRIVATE KEY", der)
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func writeCertificate(t *testing.T, path string, template, parent *x509.Certificate, public *ecdsa.PublicKey, signer *ecdsa.PrivateKey) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	require.NoError(t, err)
	writePEM(t, path, "CERTIFICATE", der)
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}
