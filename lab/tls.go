package lab

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/testpki"
)

// serverName is a DNS name in the members' certificate, in addition to the address
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
// them. The zero value is that of a cluster without TLS.
type certificates struct {
	files  TLSFiles
	client *tls.Config
	// expired is client with a certificate that is no longer valid.
	expired *tls.Config
}

// newCertificates makes an authority and certificates, and writes all but the
// authority's key to files. An error ends it, see package fatal.
func newCertificates(file func(name string) string) certificates {
	files := TLSFiles{
		CA:         file("ca.crt"),
		ServerCert: file("server.crt"), ServerKey: file("server.key"),
		ClientCert: file("client.crt"), ClientKey: file("client.key"),
	}
	ca := testpki.New(tb{}, "quorate-lab CA")
	fatal.If(os.WriteFile(files.CA, ca.PEM(), 0o600))
	// A member is a client of itself too (its HTTP gateway), with the certificate
	// that it serves with.
	server := ca.Issue(tb{}, "quorate-lab member", func(t *x509.Certificate) {
		t.DNSNames = []string{serverName}
		t.IPAddresses = append(t.IPAddresses, net.IPv6loopback)
	})
	client := func(change ...func(*x509.Certificate)) *tls.Config {
		config := ca.Client()
		config.MinVersion, config.ServerName = tls.VersionTLS12, serverName
		config.Certificates = []tls.Certificate{ca.Issue(tb{}, "root", change...)}
		return config
	}
	current := client()
	writePair(server, files.ServerCert, files.ServerKey)
	writePair(current.Certificates[0], files.ClientCert, files.ClientKey)
	return certificates{files, current, client(func(t *x509.Certificate) { t.NotAfter = time.Now().Add(-time.Minute) })}
}

func writePair(pair tls.Certificate, certFile, keyFile string) {
	certificate, key := testpki.PairPEM(tb{}, pair)
	fatal.If(errors.Join(os.WriteFile(certFile, certificate, 0o600), os.WriteFile(keyFile, key, 0o600)))
}

// tb lets package testpki end a function that runs within fatal.Catch.
type tb struct{}

func (tb) Helper() {}

func (tb) Fatal(args ...any) { fatal.If(errors.New(fmt.Sprint(args...))) }
