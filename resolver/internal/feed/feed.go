// Package news passes the State of a source to gRPC channels. A source has one Feed, and each
// channel a goroutine that publishes the latest State to it, so that a slow channel does not
// delay the others.
package news

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/internal/pause"
)

// State is what a channel is told. Its fields are not changed once it is published.
type State struct {
	Endpoints []resolver.Endpoint
	// Listed has an empty list told to a channel that was told none before. Without it the
	// problem is all that such a channel learns: for an empty list some policies fail calls with
	// a text of their own.
	Listed bool
	// Problem is why there are no endpoints, or why they may be out of date; nil if all is well,
	// or nothing is known yet.
	// Channels are notified of it when it becomes another pointer.
	Problem *Problem
}

// Problem is an error of its own each time.
type Problem struct{ Text string }

// Feed has the latest news of a source, for all who want them.
type Feed[N any] struct {
	mu      sync.Mutex
	latest  N
	changed chan struct{} // closed by what comes after latest
}

// New returns a feed with its first news.
func New[N any](n N) *Feed[N] { return &Feed[N]{latest: n, changed: make(chan struct{})} }

// Read returns the latest news, and what is closed when they are not the latest any more.
func (f *Feed[N]) Read() (N, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latest, f.changed
}

// Publish replaces the latest news.
func (f *Feed[N]) Publish(n N) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latest = n
	close(f.changed)
	f.changed = make(chan struct{})
}

const (
	// maxPause bounds the rest after a list that the channel was slow to take.
	maxPause = time.Second
	// firstRetry and longestRetry bound the pauses after a list that the channel did not
	// accept, because of its service config for instance.
	firstRetry   = 100 * time.Millisecond
	longestRetry = 10 * time.Second
)

// AsIs is the state for Tell of a source that publishes states.
func AsIs(s State) State { return s }

// Serve tells a channel what the feed knows, as state has it, until ctx ends. Lists that are equal
// to the last are not told again. When changes come all the time, no more than half of it is spent on
// telling.
func (f *Feed[N]) Serve(ctx context.Context, cc resolver.ClientConn, state func(N) State) {
	var told publisher
	told.cc = cc
	for ctx.Err() == nil {
		latest, changed := f.Read()
		began := time.Now()
		told.publish(state(latest))
		_ = pause.For(ctx, min(time.Since(began), maxPause)) // the loop sees that it has ended
		if told.retry > 0 {
			_ = pause.Until(ctx, changed, time.Until(told.due)) // the same
			continue
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// publisher knows what a channel was told.
type publisher struct {
	cc    resolver.ClientConn
	last  State
	retry time.Duration // the pause before the list is told again, 0 if the channel accepted it
	due   time.Time     // when retry is over
}

// publish publishes a changed State. An empty list is published, so that connections close, and
// then its problem is reported, so that calls fail with the reason.
func (t *publisher) publish(n State) {
	same := Equal(t.last.Endpoints, n.Endpoints) && (t.last.Listed || !n.Listed)
	if !same || t.retry > 0 && !time.Now().Before(t.due) {
		err := t.cc.UpdateState(resolver.State{Endpoints: n.Endpoints})
		switch {
		case err == nil || len(n.Endpoints) == 0: // policies refuse what is empty
			t.retry = 0
		case same:
			t.retry = min(2*t.retry, longestRetry)
		default:
			t.retry = firstRetry
		}
		t.due = time.Now().Add(t.retry)
	}
	if n.Problem != nil && n.Problem != t.last.Problem {
		// With an error that has a code of its own, calls that wait for ready would fail too.
		t.cc.ReportError(errors.New(n.Problem.Text))
	}
	t.last = n
}

// Equal reports whether two lists are the same to a channel.
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
