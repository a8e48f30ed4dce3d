//go:build experiment

package kuberesolver_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
)

// wire looks at what a client sends and gets, below client-go.
type wire struct {
	mu      sync.Mutex
	verbs   map[string]int // requests by verb; "other" is neither watch nor list
	expired int            // answers that say that the place in the history is gone
}

// seen returns the verbs that were used.
func (w *wire) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.verbs))
}

// expirations returns how many answers said that the place in the history is gone.
func (w *wire) expirations() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.expired
}

// wrap is for rest.Config.WrapTransport.
func (w *wire) wrap(below http.RoundTripper) http.RoundTripper { return &tap{w, below} }

// tap is a transport that tells a wire of what passes.
type tap struct {
	wire  *wire
	below http.RoundTripper
}

// WrappedRoundTripper lets client-go find what is below.
func (p *tap) WrappedRoundTripper() http.RoundTripper { return p.below }

// RoundTrip counts the request.
func (p *tap) RoundTrip(req *http.Request) (*http.Response, error) {
	p.wire.mu.Lock()
	p.wire.verbs[verbOf(req)]++
	p.wire.mu.Unlock()
	resp, err := p.below.RoundTrip(req)
	if err == nil {
		resp.Body = &tappedBody{ReadCloser: resp.Body, wire: p.wire}
	}
	return resp, err
}

func verbOf(req *http.Request) string {
	watch, _ := strconv.ParseBool(req.URL.Query().Get("watch"))
	switch {
	case req.Method != http.MethodGet:
		return "other"
	case watch:
		return "watch"
	}
	return "list"
}

// expiry is the reason in a Status of code 410, in every encoding.
var expiry = []byte("Expired")

// tappedBody looks for that reason in an answer.
type tappedBody struct {
	io.ReadCloser
	wire  *wire
	last  []byte // the end of what was read before
	found bool
}

// Read reads on.
func (b *tappedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	text := slices.Concat(b.last, into[:n])
	if !b.found && bytes.Contains(text, expiry) {
		b.found = true
		b.wire.mu.Lock()
		b.wire.expired++
		b.wire.mu.Unlock()
	}
	b.last = text[max(0, len(text)-len(expiry)+1):]
	return n, err
}
