package fakeapiserver

import (
	"crypto/tls"
	"fmt"

	"github.com/quorate/quorate/internal/testpki"
)

// setCertificateLocked gives the server a certificate of a new authority.
func (s *Server) setCertificateLocked() {
	authority := testpki.New(test{}, "fakeapiserver")
	certificate := authority.Issue(test{}, "fakeapiserver")
	s.authority, s.certificate = authority.PEM(), &certificate
}

func (s *Server) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.certificate, nil
}

// test is what certificates are issued for: there is no test here, and to issue them does not fail.
type test struct{}

func (test) Helper() {}

func (test) Fatal(args ...any) { panic(fmt.Sprint(args...)) }
