package yaml

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/quorate/quorate/clientv3"
)

// tlsFields are the fields of a file that say how connections are secured.
type tlsFields struct {
	InsecureTransport     bool   `json:"insecure-transport"`
	InsecureSkipTLSVerify bool   `json:"insecure-skip-tls-verify"`
	CertFile              string `json:"cert-file"`
	KeyFile               string `json:"key-file"`
	TrustedCAFile         string `json:"trusted-ca-file"`
	CAFile                string `json:"ca-file"`
}

// config returns a Config that is secured, and holds nothing else.
func (f tlsFields) config() (*clientv3.Config, error) {
	if f.InsecureTransport {
		return new(clientv3.Config), nil
	}
	certificates, err := f.certificates()
	if err != nil {
		return nil, err
	}
	ca, caField := f.TrustedCAFile, "trusted-ca-file"
	if ca == "" {
		ca, caField = f.CAFile, "ca-file"
	}
	cfg, err := clientv3.NewClientConfig(&clientv3.ConfigSpec{Secure: &clientv3.SecureConfig{
		Cert:               f.CertFile,
		Key:                f.KeyFile,
		Cacert:             ca,
		InsecureSkipVerify: f.InsecureSkipTLSVerify,
	}}, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", caField, err)
	}
	cfg.TLS.MinVersion = tls.VersionTLS12
	cfg.TLS.Certificates = certificates // for the caller; connections read the files again
	return cfg, nil
}

// certificates returns the client's certificate, if there is one. It checks all that
// NewClientConfig will, whose errors do not tell the certificate from the authorities.
func (f tlsFields) certificates() ([]tls.Certificate, error) {
	switch {
	case f.CertFile == "" && f.KeyFile == "":
		return nil, nil
	case f.KeyFile == "":
		return nil, errors.New("key-file: it is missing, and the certificate in cert-file is of no use without its key")
	case f.CertFile == "":
		return nil, errors.New("cert-file: it is missing, and the key in key-file is of no use without its certificate")
	}
	certificate, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("cert-file and key-file: %w", err)
	}
	return []tls.Certificate{certificate}, nil
}
