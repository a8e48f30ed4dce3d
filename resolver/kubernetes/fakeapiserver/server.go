package fakeapiserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/port"
	"github.com/quorate/quorate/internal/testpki"
)

// Server is a running API server. Its methods may be called concurrently.
type Server struct {
	port     *port.Port
	handlers sync.WaitGroup
	gate     sync.RWMutex // locked while the server hangs

	mu          sync.Mutex
	changed     chan struct{} // closed and replaced when there are more requests or objects, or watches end
	authority   []byte        // in PEM
	certificate *tls.Certificate
	http        *http.Server // nil while stopped
	served      chan struct{}
	closed      bool
	hangs       bool
	conns       map[*conn]struct{}
	requests    []Request
	rules
	objects objects
	ends    int  // how often all watches were ended
	expired bool // how they were ended last
	watches int  // that are open
}

// Start runs an API server on a free port of the loopback interface. It is empty, accepts
// every token and allows every verb.
func Start() (*Server, error) {
	reserved, err := port.Reserve()
	if err != nil {
		return nil, fmt.Errorf("fakeapiserver: %w", err)
	}
	s := &Server{
		port:    reserved,
		changed: make(chan struct{}),
		conns:   make(map[*conn]struct{}),
		rules:   rules{denied: make(map[string]bool), bookmarks: time.Minute},
		objects: objects{version: 1, current: make(map[key]*discoveryv1.EndpointSlice)},
	}
	s.setCertificateLocked()
	if err := s.Restart(); err != nil {
		return nil, errors.Join(err, reserved.Release())
	}
	return s, nil
}

// changedLocked wakes what waits for a change.
func (s *Server) changedLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Restart begins to listen again after Stop, on the same port, which stays the server's between
// them on Linux; elsewhere it fails if another process has taken the port. It does nothing if the
// server runs, and fails if it is closed.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("fakeapiserver: the server is closed: Start another one")
	}
	if s.http != nil {
		return nil
	}
	inner, err := net.Listen("tcp", s.port.Address())
	if err != nil {
		return fmt.Errorf("fakeapiserver: %w", err)
	}
	server := &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		TLSConfig:         &tls.Config{GetCertificate: s.getCertificate, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: time.Minute,
		// Broken handshakes are what tests are about.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	served := make(chan struct{})
	s.http, s.served = server, served
	go func() {
		defer close(served)
		// It ends with Stop.
		_ = server.ServeTLS(&listener{Listener: inner, server: s}, "", "")
	}()
	return nil
}

// Stop breaks all connections and refuses new ones until Restart. Objects and their history
// stay. It ends a Hang. It does nothing else if the server is stopped.
func (s *Server) Stop() {
	s.Resume()
	s.mu.Lock()
	server, served := s.http, s.served
	s.http = nil
	s.mu.Unlock()
	if server == nil {
		return
	}
	_ = server.Close()
	<-served
	s.BreakConnections()
}

// Close ends the server and waits for what it was doing. It may be called again.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.Stop()
	s.handlers.Wait()
	_ = s.port.Release() // nothing listens on it any more
}

// URL returns the server's, such as https://127.0.0.1:41234. It stays the same.
func (s *Server) URL() string {
	return "https://" + s.port.Address()
}

// CAData returns the authority, in PEM, by which the server is verified now.
func (s *Server) CAData() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.authority
}

// RESTConfig returns a configuration of client-go for this server, with the first of the
// tokens of SetTokens if there are any.
func (s *Server) RESTConfig() *rest.Config {
	config := &rest.Config{Host: s.URL(), TLSClientConfig: rest.TLSClientConfig{CAData: s.CAData()}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tokens) > 0 {
		config.BearerToken = s.tokens[0]
	}
	return config
}

// Watches returns how many watches are open.
func (s *Server) Watches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches
}

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
