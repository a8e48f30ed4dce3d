package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
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
	server := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "quorate-lab member"},
		DNSNames:    []string{serverName},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if err := ca.issue(server, c.files.ServerCert, c.files.ServerKey); err != nil {
		return err
	}
	client := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "root"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if err := ca.issue(client, c.files.ClientCert, c.files.ClientKey); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.files.ClientCert, c.files.ClientKey)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	c.client = &tls.Config{
		MinVersion:   tls.VersionTLS12,
		RootCAs:      roots,
		Certificates: []tls.Certificate{pair},
		ServerName:   serverName,
	}
	return c.expire(ca, dir)
}

// expire makes the configuration of a client whose certificate has expired.
func (c *certificates) expire(ca *authority, dir *dataDir) error {
	cert, key := dir.join("expired.crt"), dir.join("expired.key")
	err := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "root"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotAfter:    time.Now().Add(-time.Minute),
	}, cert, key)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	c.expired = c.client.Clone()
	c.expired.Certificates = []tls.Certificate{pair}
	return err
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
	if err := prepare(template); err != nil {
		return nil, err
	}
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

// issue signs a certificate for a new key and writes both.
func (a *authority) issue(template *x509.Certificate, certFile, keyFile string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if err := prepare(template); err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	if err := writePEM(certFile, "CERTIFICATE", der); err != nil {
		return err
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(keyFile, "EC PRIVATE KEY", encoded)
}

// prepare gives a template a serial number of its own and its time of validity.
func prepare(template *x509.Certificate) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour) // clocks of containers differ
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(certificateLife)
	}
	return nil
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
