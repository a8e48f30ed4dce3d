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

type journal struct {
	mu       sync.Mutex
	requests []Request
	more     chan struct{} // closed and replaced with each request
}

func newJournal() *journal { return &journal{more: make(chan struct{})} }

func (j *journal) add(r Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.At = time.Now()
	j.requests = append(j.requests, r)
	close(j.more)
	j.more = make(chan struct{})
}

func (j *journal) all() []Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.requests)
}

func (j *journal) count(verb string) int {
	n, _ := j.countAndChanges(verb)
	return n
}

func (j *journal) countAndChanges(verb string) (int, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, r := range j.requests {
		if r.Verb == verb {
			n++
		}
	}
	return n, j.more
}

func (j *journal) wait(ctx context.Context, verb string, n int) error {
	for {
		have, more := j.countAndChanges(verb)
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
