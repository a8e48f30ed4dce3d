package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/resolver"
	discoveryv1 "k8s.io/api/discovery/v1"
)

var logger = grpclog.Component("kubernetes-resolver")

// view is what a feed knows. It is not changed once it is published.
type view struct {
	listed bool                         // slices are all there are, or were when err began
	stale  bool                         // slices are from before this feed began
	slices []*discoveryv1.EndpointSlice // by name
	err    error                        // why they may be out of date, nil if they are not
}

// feed follows the slices of one service for all channels that use it.
type feed struct {
	service serviceKey
	links   *links
	timing  timing
	longest time.Duration // of the pauses between attempts

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}

	listFirst atomic.Bool // the server does not stream lists

	mu      sync.Mutex
	last    memory // of the last feed of the service
	view    view
	changed chan struct{} // closed and replaced with each view
	// listings has what the view comes to for each destination that channels have asked for.
	listings map[serviceTarget]*listing

	// What follows belongs to run.
	known  *inventory
	link   *link
	pauses backoff // after attempts that led to nothing
	breaks backoff // after watches that did not last
	up     bool    // the current attempt has led to a watch
	steady bool    // which has been of use
	outage outage
}

// outage is the time in which attempts fail.
type outage struct {
	since  time.Time // zero: there is none
	logged bool
}

// memory is what the next feed of a service begins with.
type memory struct {
	slices []*discoveryv1.EndpointSlice
	// used has what channels used for each destination, with what was kept although it was gone.
	used      map[serviceTarget][]resolver.Endpoint
	listFirst bool
}

// staleAfter is how long channels that open or wake up wait for the API server before they get
// the last list of the service.
const staleAfter = 300 * time.Millisecond

var errUnanswered = errors.New("kubernetes: the API server has not answered yet")

func startFeed(service serviceKey, l *links, longest time.Duration, last memory) *feed {
	ctx, cancel := context.WithCancel(context.Background())
	f := &feed{
		service: service, links: l, timing: l.timing, longest: longest,
		ctx: ctx, cancel: cancel, done: make(chan struct{}), changed: make(chan struct{}),
		known: newInventory(), last: last, listings: make(map[serviceTarget]*listing),
	}
	f.listFirst.Store(last.listFirst)
	if len(last.slices) > 0 {
		time.AfterFunc(staleAfter, f.useStale)
	}
	go f.run(ctx)
	return f
}

// useStale publishes the last list if there is nothing yet.
func (f *feed) useStale() {
	f.update(func(v *view) {
		if !v.listed && v.err == nil {
			*v = view{listed: true, stale: true, slices: f.last.slices, err: errUnanswered}
		}
	})
}

// Stop implements lastgood.Source.
func (f *feed) Stop() (memory, bool) {
	f.cancel()
	v, _ := f.snapshot()
	if !v.listed {
		v.slices = f.last.slices
	}
	return memory{v.slices, f.used(), f.listFirst.Load()}, true
}

// snapshot returns the current view, and a channel that is closed when there is another one.
func (f *feed) snapshot() (view, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view, f.changed
}

func (f *feed) update(change func(*view)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.view)
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *feed) run(ctx context.Context) {
	defer close(f.done)
	defer f.unlink(false)
	for {
		verb, err := f.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		timer := time.NewTimer(f.delayAfter(verb, err))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// delayAfter draws the consequences of the end of an attempt, and returns how long to wait before
// the next one.
func (f *feed) delayAfter(verb string, err error) time.Duration {
	if f.steady {
		f.breaks.reset()
	}
	longest, failed := f.longest, &f.pauses
	if unreachable(err) {
		longest = min(longest, longestUnreachable)
	}
	if f.up {
		failed = &f.breaks
	}
	pause := failed.pause(longest)
	switch {
	case errors.Is(err, errEnded):
		return pause
	case errors.Is(err, errExpired):
		f.known.version = ""
		return pause
	case errors.Is(err, errNoWatchList):
		f.listFirst.Store(true)
		return 0
	case errors.Is(err, errSilent):
		// Not a failure yet. What was missed, if anything, is seen by listing again.
		f.known.version = ""
		f.unlink(true)
		return pause
	}
	if verb == "list" && code(err) == http.StatusForbidden {
		f.listFirst.Store(false) // only the verb watch is granted: the server may stream lists by now
	}
	if !refused(err) {
		f.unlink(true)
	}
	f.fail(explain(err, verb, f.service))
	return max(pause, retryAfter(err))
}

// fail publishes why the view may be out of date.
func (f *feed) fail(err error) {
	if f.outage.since.IsZero() {
		f.outage.since = time.Now()
	} else if !f.outage.logged {
		// The second failure in a row: a single one is an ordinary restart.
		f.outage.logged = true
		logger.Warningf("%v; attempts go on", err)
	}
	f.update(func(v *view) {
		if !v.listed && len(f.last.slices) > 0 {
			v.listed, v.stale, v.slices = true, true, f.last.slices
		}
		v.err = err
	})
}

// succeed publishes that the view is complete and up to date.
func (f *feed) succeed() {
	if f.outage.logged {
		logger.Infof("kubernetes: %v is followed again, after %v", f.service, time.Since(f.outage.since).Round(time.Millisecond))
	}
	f.outage = outage{}
	f.up = true
	f.pauses.reset()
	f.publish()
}

func (f *feed) publish() {
	set := f.known.sorted()
	f.update(func(v *view) { *v = view{listed: true, slices: set} })
}

// unlink gives the link back, and retires it if something is wrong with it.
func (f *feed) unlink(retire bool) {
	if f.link == nil {
		return
	}
	if retire {
		f.links.retire(f.link)
	}
	f.links.release(f.link)
	f.link = nil
}
