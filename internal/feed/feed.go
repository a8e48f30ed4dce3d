// Package feed passes the state of a source to the gRPC channels that use it.
//
// The source announces when its state may have changed. The channels then read the State, which is
// built once for all of them. Each channel has a goroutine, so that a slow one delays no other.
package feed

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"
)

// buildShare bounds the time spent on building States under continuous changes: one part in five.
const buildShare = 5

// State is what a channel receives. It is not modified once it is built.
type State struct {
	Endpoints []resolver.Endpoint
	// Listed is set if the source has been listed. A channel that has received no list yet
	// receives an empty one only if Listed is set; otherwise it receives the Problem alone,
	// because some policies fail calls with a text of their own for an empty list.
	Listed bool
	// Problem is why there are no endpoints, or why they may be out of date; empty if there is no
	// problem, or nothing is known yet.
	Problem string
	// Due is when the source has another State without a change; zero: never.
	Due time.Time
}

// Feed has the State of a source.
type Feed struct {
	mu    *sync.Mutex // the lock of the source
	build func() State

	last    State
	stale   bool          // last must be built again
	changed chan struct{} // closed when last becomes stale
	rested  time.Time     // last is not built again before this time
}

// New returns a Feed. mu guards the source; build, which returns its State, is called with mu held.
func New(mu *sync.Mutex, build func() State) *Feed {
	return &Feed{mu: mu, build: build, stale: true}
}

// ChangedLocked makes the channels read the State again.
func (f *Feed) ChangedLocked() {
	if !f.stale {
		f.stale = true
		close(f.changed)
	}
}

// read returns the State, and a channel that is closed when it may have changed. Under continuous
// changes it returns the last State, which is then due soon.
func (f *Feed) read() (State, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if due := !f.last.Due.IsZero() && !now.Before(f.last.Due); !due && !f.stale {
		return f.last, f.changed
	}
	if now.Before(f.rested) {
		last := f.last
		last.Due = f.rested
		return last, nil
	}
	f.last = f.build()
	if f.stale {
		f.stale, f.changed = false, make(chan struct{})
	}
	f.rested = time.Now().Add((buildShare - 1) * time.Since(now))
	return f.last, f.changed
}

// Equal reports whether two lists have equal addresses and attributes, in the same order.
func Equal(a, b []resolver.Endpoint) bool {
	same := len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
	return same || slices.EqualFunc(a, b, equal)
}

func equal(a, b resolver.Endpoint) bool {
	return (a.Attributes == b.Attributes || a.Attributes.Equal(b.Attributes)) &&
		slices.EqualFunc(a.Addresses, b.Addresses, resolver.Address.Equal)
}
