package gozero_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zeromicro/go-zero/core/discov"
	"go.uber.org/zap"

	"github.com/quorate/quorate/adapters/gozero"
	"github.com/quorate/quorate/clientv3"
)

// newCA returns a certificate that is its own authority, with the PEM of it and of its key.
func newCA(t *testing.T) (cert tls.Certificate, certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	cert, err = tls.X509KeyPair(certPEM, keyPEM)
	require.NoError(t, err)
	return cert, certPEM, keyPEM
}

// The file of authorities changes after the client was made, and the server's certificate is of the new one.
func TestTheCAFileIsReadAgain(t *testing.T) {
	_, old, key := newCA(t)
	cert, renewed, _ := newCA(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}})
	require.NoError(t, err)
	defer func() { assert.NoError(t, listener.Close()) }()
	file := func(name string, content []byte) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	conf := discov.EtcdConf{
		Hosts: []string{"https://" + listener.Addr().String()}, User: "u", Pass: "p",
		CACertFile: file("ca.pem", old), CertFile: file("cert.pem", old), CertKeyFile: file("key.pem", key),
	}
	client, err := gozero.NewClient(conf, clientv3.Config{Logger: zap.NewNop(), DialTimeout: time.Nanosecond})
	require.ErrorIs(t, err, context.DeadlineExceeded, "user and DialTimeout are those of both configurations")
	require.Nil(t, client)
	conf.User = ""
	client, err = gozero.NewClient(conf, clientv3.Config{Logger: zap.NewNop()})
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, os.WriteFile(conf.CACertFile, renewed, 0o600))
	modified := time.Now().Add(time.Minute)
	require.NoError(t, os.Chtimes(conf.CACertFile, modified, modified))
	go func() { _, _ = client.Get(t.Context(), "k") }()
	conn, err := listener.Accept()
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*tls.Conn).HandshakeContext(t.Context()))
}
