package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// certificateLife is how long the certificates of a cluster are valid; no lab runs
// so long.
const certificateLife = 24 * time.Hour

// serverName is a DNS name that the members' certificate holds, beside the address
// 127.0.0.1.
const serverName = "localhost"

// TLSFiles are the paths of a TLS cluster's PEM files. They exist until
// Cluster.Close.
type TLSFiles struct {
	// CA is the certificate of the authority that signed the others.
	CA string
	// ServerCert and ServerKey are what the members serve with: valid for localhost
	// and 127.0.0.1.
	ServerCert, ServerKey string
	// ClientCert and ClientKey are a client certificate with the common name
	// "root".
	ClientCert, ClientKey string
}

// certificates are the files of a cluster and the client configuration made of
// them.
type certificates struct {
	files  TLSFiles
	client *tls.Config
	// expired is client with a certificate that is no longer valid.
	expired *tls.Config
}

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// newCertificates makes an authority and certificates, and writes all but the
// authority's key to files in dir.
func newCertificates(dir *dataDir) (*certificates, error) {
	c := &certificates{files: TLSFiles{
		CA:         dir.join("ca.crt"),
		ServerCert: dir.join("server.crt"), ServerKey: dir.join("server.key"),
		ClientCert: dir.join("client.crt"), ClientKey: dir.join("client.key"),
	}}
	if err := c.make(dir); err != nil {
		return nil, fmt.Errorf("lab: certificates: %w", err)
	}
	return c, nil
}

func (c *certificates) make(dir *dataDir) error {
	ca, err := newAuthority(c.files.CA)
	if err != nil {
		return err
	}
	// A member is a client of itself too (its HTTP gateway), with the certificate
	// that it serves with.
	_, err = ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "quorate-lab member"},
		DNSNames:    []string{serverName},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, c.files.ServerCert, c.files.ServerKey)
	if err != nil {
		return err
	}
	if c.client, err = ca.client(time.Now().Add(certificateLife), c.files.ClientCert, c.files.ClientKey); err != nil {
		return err
	}
	c.expired, err = ca.client(time.Now().Add(-time.Minute), dir.join("expired.crt"), dir.join("expired.key"))
	return err
}

// client returns the configuration of a client with a certificate that is valid until a time.
func (a *authority) client(until time.Time, certFile, keyFile string) (*tls.Config, error) {
	pair, err := a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "root"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotAfter:    until,
	}, certFile, keyFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		RootCAs:      roots,
		Certificates: []tls.Certificate{pair},
		ServerName:   serverName,
	}, nil
}

func newAuthority(certFile string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "quorate-lab CA"},
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	prepare(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{certificate: certificate, key: key}, writePEM(certFile, "CERTIFICATE", der)
}

// issue signs a certificate for a new key, writes both, and returns them.
func (a *authority) issue(template *x509.Certificate, certFile, keyFile string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	prepare(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		errors.Join(writePEM(certFile, "CERTIFICATE", der), writePEM(keyFile, "EC PRIVATE KEY", encoded))
}

// prepare gives a template its time of validity.
func prepare(template *x509.Certificate) {
	template.NotBefore = time.Now().Add(-time.Hour) // clocks of containers differ
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(certificateLife)
	}
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
