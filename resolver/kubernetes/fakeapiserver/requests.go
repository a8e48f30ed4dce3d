package fakeapiserver

import (
	"context"
	"net/url"
	"slices"
	"time"
)

// Request is a request that arrived.
type Request struct {
	// Verb is the Kubernetes verb: list or watch.
	Verb string
	// Namespace is empty if the request is about all of them.
	Namespace string
	// Query are the parameters, with labelSelector, resourceVersion and so on.
	Query url.Values
	// Protocol is HTTP/1.1 or HTTP/2.0.
	Protocol string
	// Code is what was answered first: 200 for watches that were opened.
	Code int
	// At is when it was answered first.
	At time.Time
}

// Requests returns all requests that have arrived, in the order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Count returns how many requests of a verb (list or watch) have arrived, refused ones included.
func (s *Server) Count(verb string) int {
	n, _ := s.count(verb)
	return n
}

// count returns also a channel that is closed when there may be more.
func (s *Server) count(verb string) (n int, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r.Verb == verb {
			n++
		}
	}
	return n, s.changed
}

// Wait waits until n requests of a verb have arrived in all. It returns the error of ctx if
// that ends first.
func (s *Server) Wait(ctx context.Context, verb string, n int) error {
	for {
		have, more := s.count(verb)
		if have >= n {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
