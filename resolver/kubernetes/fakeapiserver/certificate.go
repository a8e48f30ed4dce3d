package fakeapiserver

import (
	"crypto/tls"
	"fmt"

	"github.com/quorate/quorate/internal/testpki"
)

// setCertificateLocked gives the server an authority of its own, and a certificate of it.
func (s *Server) setCertificateLocked() {
	authority := testpki.New(never{}, "fakeapiserver")
	certificate := authority.Issue(never{}, "fakeapiserver")
	s.authority, s.certificate = authority.PEM(), &certificate
}

// never is what package testpki calls if it cannot make a certificate, which does not happen.
type never struct{}

func (never) Helper() {}

func (never) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func (s *Server) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.certificate, nil
}
