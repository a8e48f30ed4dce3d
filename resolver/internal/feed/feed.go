// Package feed passes the State of a source to gRPC channels. A source has one Feed, and each
// channel a goroutine that passes the latest State on, so that a slow channel does not delay
// the others.
package feed

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/internal/pause"
)

// State is what a channel receives. It is not modified once it is published.
type State struct {
	Endpoints []resolver.Endpoint
	// Listed is set if the source has been listed. A channel that has received no list yet
	// receives an empty one only if Listed is set; otherwise it receives the Problem alone,
	// because some policies fail calls with a text of their own for an empty list.
	Listed bool
	// Problem is why there are no endpoints, or why they may be out of date; nil if there is
	// no problem, or nothing is known yet. It is reported whenever the pointer changes.
	Problem *Problem
}

// Problem is an error, compared by its pointer.
type Problem struct{ Text string }

// Feed holds the latest value of a source, of type V.
type Feed[V any] struct {
	mu      sync.Mutex
	latest  V
	changed chan struct{} // closed when latest is replaced
}

// New returns a Feed with its first value.
func New[V any](v V) *Feed[V] { return &Feed[V]{latest: v, changed: make(chan struct{})} }

// Read returns the latest value, and a channel that is closed when the value is replaced.
func (f *Feed[V]) Read() (V, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latest, f.changed
}

// Publish replaces the latest value.
func (f *Feed[V]) Publish(v V) { f.Update(func(latest *V) { *latest = v }) }

// Update changes the latest value. The function is called with the lock of the feed held.
func (f *Feed[V]) Update(change func(latest *V)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.latest)
	close(f.changed)
	f.changed = make(chan struct{})
}

const (
	// maxPause bounds the pause after an update that took the channel long.
	maxPause = time.Second
	// firstRetry and longestRetry bound the pauses after a list that the channel refused, for
	// example because of its service config.
	firstRetry   = 100 * time.Millisecond
	longestRetry = 10 * time.Second
)

// AsIs is the state function for Serve if the values of the feed are States.
func AsIs(s State) State { return s }

// Serve passes the State of each value to a channel until ctx ends. A list that equals the last
// one is not passed again. Under continuous changes Serve spends at most half of the time in
// the channel.
func (f *Feed[V]) Serve(ctx context.Context, cc resolver.ClientConn, state func(V) State) {
	p := publisher{cc: cc}
	for ctx.Err() == nil {
		latest, changed := f.Read()
		began := time.Now()
		p.publish(state(latest))
		_ = pause.For(ctx, min(time.Since(began), maxPause)) // the loop checks ctx
		if p.retry > 0 {
			_ = pause.Until(ctx, changed, time.Until(p.due)) // the loop checks ctx
			continue
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// publisher passes states to one channel.
type publisher struct {
	cc    resolver.ClientConn
	last  State
	retry time.Duration // the pause before the list is passed again, 0 if the channel accepted it
	due   time.Time     // when the pause ends
}

// publish passes a changed State to the channel. An empty list closes the connections; the
// problem, reported after it, becomes the error of calls.
func (p *publisher) publish(s State) {
	same := Equal(p.last.Endpoints, s.Endpoints) && (p.last.Listed || !s.Listed)
	if !same || p.retry > 0 && !time.Now().Before(p.due) {
		err := p.cc.UpdateState(resolver.State{Endpoints: s.Endpoints})
		switch {
		case err == nil || len(s.Endpoints) == 0: // policies refuse an empty list
			p.retry = 0
		case same:
			p.retry = min(2*p.retry, longestRetry)
		default:
			p.retry = firstRetry
		}
		p.due = time.Now().Add(p.retry)
	}
	if s.Problem != nil && s.Problem != p.last.Problem {
		// An error with a status code would also fail calls that wait for ready.
		p.cc.ReportError(errors.New(s.Problem.Text))
	}
	p.last = s
}

// Equal reports whether two lists have equal addresses and attributes, in the same order.
func Equal(a, b []resolver.Endpoint) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) == 0 || &a[0] == &b[0] {
		return true
	}
	for i := range a {
		if !equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func equal(a, b resolver.Endpoint) bool {
	if len(a.Addresses) != len(b.Addresses) || a.Attributes != b.Attributes && !a.Attributes.Equal(b.Attributes) {
		return false
	}
	for i := range a.Addresses {
		if !a.Addresses[i].Equal(b.Addresses[i]) {
			return false
		}
	}
	return true
}
