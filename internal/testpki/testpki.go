// Package testpki issues certificates for tests.
package testpki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// TB is the part of testing.TB that is needed here.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Authority signs certificates that are valid for a day.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// New returns an authority with a key of its own.
func New(t TB, name string) *Authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key, der := sign(t, template, nil)
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{certificate, key}
}

// sign makes a key and its certificate, signed by an authority, or by itself.
func sign(t TB, template *x509.Certificate, by *Authority) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = &Authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.certificate, &key.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

// Issue returns a certificate for servers at 127.0.0.1 and for clients, or what change makes of it.
func (a *Authority) Issue(t TB, name string, change ...func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for _, f := range change {
		f(template)
	}
	key, der := sign(t, template, a)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Pool has the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Server returns the configuration of a server with a certificate.
func (a *Authority) Server(t TB) *tls.Config {
	t.Helper()
	return &tls.Config{Certificates: []tls.Certificate{a.Issue(t, "server")}}
}

// Client returns the configuration of a client that trusts the authority.
func (a *Authority) Client() *tls.Config { return &tls.Config{RootCAs: a.Pool()} }

// PEM is the file of the authority.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// PairPEM are the files of a certificate and of its key.
func PairPEM(t TB, pair tls.Certificate) (certificate, key []byte) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
