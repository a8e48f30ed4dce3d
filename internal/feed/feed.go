// Package feed passes the state of a source to the gRPC channels that use it.
//
// The source announces when its state may have changed. The channels then read the State, which is
// built once for all of them. Each channel has a goroutine, so that a slow one delays no other.
package feed

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/internal/pause"
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

const (
	// maxPause bounds the pause after an update that took the channel long.
	maxPause = time.Second
	// firstRetry and longestRetry bound the pauses after a list that the channel refused, for
	// example because of its service config.
	firstRetry   = 100 * time.Millisecond
	longestRetry = 10 * time.Second

	never = math.MaxInt64
)

// channel is the resolver of one channel.
type channel struct {
	resolveNow func()
	release    func()
	cancel     context.CancelFunc
	done       chan struct{}
}

// Resolve returns a resolver that passes the State to a channel until it is closed. A list that
// equals the last one is not passed again. Under continuous changes it spends at most half of the
// time in the channel.
//
// resolveNow, if not nil, is called when gRPC requests a resolution; release, once, by Close.
func (f *Feed) Resolve(cc resolver.ClientConn, resolveNow, release func()) resolver.Resolver {
	ctx, cancel := context.WithCancel(context.Background())
	c := &channel{resolveNow: resolveNow, release: sync.OnceFunc(release), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		f.serve(ctx, cc)
	}()
	return c
}

// ResolveNow requests a resolution, unless the source pushes its changes.
func (c *channel) ResolveNow(resolver.ResolveNowOptions) {
	if c.resolveNow != nil {
		c.resolveNow()
	}
}

// Close returns when the channel receives no more updates. It does not wait for the source.
func (c *channel) Close() {
	c.cancel()
	<-c.done
	c.release()
}

func (f *Feed) serve(ctx context.Context, cc resolver.ClientConn) {
	p := publisher{cc: cc}
	for ctx.Err() == nil {
		state, changed := f.read()
		began := time.Now()
		p.publish(state)
		_ = pause.For(ctx, min(time.Since(began), maxPause)) // the loop checks ctx
		wait := time.Duration(never)
		for _, due := range []time.Time{state.Due, p.due} {
			if !due.IsZero() {
				wait = min(wait, time.Until(due))
			}
		}
		_ = pause.Until(ctx, changed, wait)
	}
}

// publisher passes States to one channel.
type publisher struct {
	cc       resolver.ClientConn
	last     State
	reported string
	retry    time.Duration // the pause before a refused list is passed again
	due      time.Time     // when the pause ends; zero if the channel has accepted the list
}

// publish passes a changed State to the channel. An empty list closes the connections; the
// problem, reported after it, becomes the error of calls.
func (p *publisher) publish(s State) {
	same := Equal(p.last.Endpoints, s.Endpoints) && (p.last.Listed || !s.Listed)
	if retry := !p.due.IsZero() && !time.Now().Before(p.due); !same || retry {
		p.update(s.Endpoints, retry && same)
	}
	p.last = s
	if s.Problem != "" && s.Problem != p.reported {
		// An error with a status code would also fail calls that wait for ready.
		p.cc.ReportError(errors.New(s.Problem))
	}
	p.reported = s.Problem
}

func (p *publisher) update(endpoints []resolver.Endpoint, again bool) {
	err := p.cc.UpdateState(resolver.State{Endpoints: endpoints})
	if len(endpoints) == 0 {
		p.reported = "" // policies refuse an empty list, with an error of their own
	}
	switch {
	case err == nil || len(endpoints) == 0:
		p.due = time.Time{}
		return
	case again:
		p.retry = min(2*p.retry, longestRetry)
	default:
		p.retry = firstRetry
	}
	p.due = time.Now().Add(p.retry)
}
