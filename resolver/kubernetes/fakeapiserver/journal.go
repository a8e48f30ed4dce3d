package fakeapiserver

import (
	"context"
	"net/url"
	"slices"
	"sync"
	"time"
)

var allVerbs = []string{"list", "watch", "get"}

// Request is a request that arrived.
type Request struct {
	// Verb is the Kubernetes verb: list, watch or get.
	Verb string
	// Namespace is empty if the request is about all of them.
	Namespace string
	// Name is the object's, empty for list, watch and create.
	Name string
	// Query are the parameters, with labelSelector, resourceVersion and so on.
	Query url.Values
	// Protocol is HTTP/1.1 or HTTP/2.0.
	Protocol string
	// Code is what was answered first: 200 for watches that were opened.
	Code int
	// At is when it was answered first.
	At time.Time
}

// journal has all requests.
type journal struct {
	mu       sync.Mutex
	requests []Request
	more     chan struct{} // closed and replaced with each request
}

func (j *journal) add(r Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.At = time.Now()
	j.requests = append(j.requests, r)
	close(j.more)
	j.more = make(chan struct{})
}

// count returns how many requests of a verb there were, and a channel that is closed with the next request.
func (j *journal) count(verb string) (n int, more <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.requests {
		if r.Verb == verb {
			n++
		}
	}
	return n, j.more
}

// Requests returns all requests that have arrived, in the order of arrival.
func (s *Server) Requests() []Request {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	return slices.Clone(s.journal.requests)
}

// Count returns how many requests of a verb (list, watch or get) have arrived, refused ones included.
func (s *Server) Count(verb string) int {
	n, _ := s.journal.count(verb)
	return n
}

// Wait waits until n requests of a verb have arrived in all. It returns the error of ctx if
// that ends first.
func (s *Server) Wait(ctx context.Context, verb string, n int) error {
	for {
		have, more := s.journal.count(verb)
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
