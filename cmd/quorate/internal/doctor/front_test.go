package doctor

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// front stands before a member: it ends TLS with a certificate of its own, if it has one, and
// answers requests over HTTP by itself with a date, if it is to.
type front struct {
	target      string
	certificate *tls.Certificate
	date        func() time.Time
}

// start returns the address of the front, which ends with the test.
func (f front) start(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	if f.certificate != nil {
		lis = tls.NewListener(lis, &tls.Config{Certificates: []tls.Certificate{*f.certificate}, NextProtos: []string{"h2", "http/1.1"}})
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { f.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = lis.Close()
		wg.Wait()
	})
	return lis.Addr().String()
}

func (f front) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	first, err := in.Peek(4)
	if err != nil {
		return
	}
	if f.date != nil && string(first) == "GET " {
		if _, err := http.ReadRequest(in); err == nil {
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 404 Not Found\r\nDate: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
				f.date().UTC().Format(http.TimeFormat))
		}
		return
	}
	member, err := net.Dial("tcp", f.target)
	if err != nil {
		return
	}
	defer member.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(member, in)
		_ = member.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(conn, member)
	_ = conn.Close()
	wg.Wait()
}

// authority issues certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{cert, key}
}

func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// issue makes a certificate of a server for a host, valid from and to then.
func (a authority) issue(t *testing.T, host string, from, to time.Duration) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "member"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to),
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// bare returns an endpoint without its scheme.
func bare(endpoint string) string {
	_, address, ok := strings.Cut(endpoint, "://")
	if !ok {
		return endpoint
	}
	return address
}
