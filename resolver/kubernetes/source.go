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

	"github.com/quorate/quorate/resolver/internal/feed"
)

var logger = grpclog.Component("kubernetes-resolver")

// view is the state of a source. It is not modified once it is published.
type view struct {
	listed bool                         // slices is complete, or was when err began
	stale  bool                         // slices is from an earlier source
	slices []*discoveryv1.EndpointSlice // by name
	err    error                        // why slices may be out of date, nil if it is not
}

// source follows the slices of one service for all channels that use it.
type source struct {
	service serviceKey
	links   *links
	timing  timing
	longest time.Duration // of the pauses between attempts

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}

	listFirst atomic.Bool // the server does not stream lists

	last memory // of the last source of the service
	*feed.Feed[view]

	mu sync.Mutex
	// listings has a listing for each destination of the channels.
	listings map[serviceTarget]*listing

	// The fields below belong to run.
	known  *inventory
	link   *link
	pauses backoff // after attempts without a list or watch
	breaks backoff // after short watches
	up     bool    // the current attempt has a list or watch
	steady bool    // the watch lasted for timing.steady
	outage outage
}

// outage is a time in which attempts fail.
type outage struct {
	since  time.Time // zero: there is none
	logged bool
}

// memory is the state that the next source of a service starts with.
type memory struct {
	slices []*discoveryv1.EndpointSlice
	// used has the endpoints that channels used for each destination, with those that the guard
	// kept.
	used      map[serviceTarget][]resolver.Endpoint
	listFirst bool
}

// staleAfter is how long channels that open or leave idle mode wait for the API server before they
// receive the last list of the service.
const staleAfter = 300 * time.Millisecond

var errUnanswered = errors.New("kubernetes: the API server has not answered yet")

func startSource(service serviceKey, l *links, longest time.Duration, last memory) *source {
	ctx, cancel := context.WithCancel(context.Background())
	f := &source{
		service: service, links: l, timing: l.timing, longest: longest,
		ctx: ctx, cancel: cancel, done: make(chan struct{}), Feed: feed.New(view{}),
		known: newInventory(), last: last, listings: make(map[serviceTarget]*listing),
	}
	f.listFirst.Store(last.listFirst)
	if len(last.slices) > 0 {
		time.AfterFunc(staleAfter, f.useStale)
	}
	go f.run(ctx)
	return f
}

// useStale publishes the last list if there is no other yet.
func (s *source) useStale() {
	s.Update(func(v *view) {
		if !v.listed && v.err == nil {
			*v = view{listed: true, stale: true, slices: s.last.slices, err: errUnanswered}
		}
	})
}

// Stop implements lastgood.Source.
func (s *source) Stop() (memory, bool) {
	s.cancel()
	v, _ := s.Read()
	if !v.listed {
		v.slices = s.last.slices
	}
	return memory{v.slices, s.used(), s.listFirst.Load()}, true
}

func (s *source) run(ctx context.Context) {
	defer close(s.done)
	defer s.unlink(false)
	for {
		verb, err := s.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		timer := time.NewTimer(s.delayAfter(verb, err))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// delayAfter processes the end of an attempt and returns the pause before the next one.
func (s *source) delayAfter(verb string, err error) time.Duration {
	if s.steady {
		s.breaks.reset()
	}
	longest, failed := s.longest, &s.pauses
	if unreachable(err) {
		longest = min(longest, longestUnreachable)
	}
	if s.up {
		failed = &s.breaks
	}
	pause := failed.pause(longest)
	switch {
	case errors.Is(err, errEnded):
		return pause
	case errors.Is(err, errExpired):
		s.known.version = ""
		return pause
	case errors.Is(err, errNoWatchList):
		s.listFirst.Store(true)
		return 0
	case errors.Is(err, errSilent):
		// This is not a failure yet. The next list has whatever was missed.
		s.known.version = ""
		s.unlink(true)
		return pause
	}
	if verb == "list" && code(err) == http.StatusForbidden {
		s.listFirst.Store(false) // only watch is granted: the server may stream lists now
	}
	if !refused(err) {
		s.unlink(true)
	}
	s.fail(explain(err, verb, s.service))
	return max(pause, retryAfter(err))
}

// fail publishes why the view may be out of date.
func (s *source) fail(err error) {
	if s.outage.since.IsZero() {
		s.outage.since = time.Now()
	} else if !s.outage.logged {
		// The second failure in a row: a single one is an ordinary restart.
		s.outage.logged = true
		logger.Warningf("%v; attempts continue", err)
	}
	s.Update(func(v *view) {
		if !v.listed && len(s.last.slices) > 0 {
			v.listed, v.stale, v.slices = true, true, s.last.slices
		}
		v.err = err
	})
}

// succeed publishes that the view is complete and up to date.
func (s *source) succeed() {
	if s.outage.logged {
		logger.Infof("kubernetes: %v is followed again, after %v", s.service, time.Since(s.outage.since).Round(time.Millisecond))
	}
	s.outage = outage{}
	s.up = true
	s.pauses.reset()
	s.publish()
}

func (s *source) publish() {
	set := s.known.sorted()
	s.Publish(view{listed: true, slices: set})
}

// unlink releases the link, and retires it if retire is set.
func (s *source) unlink(retire bool) {
	if s.link == nil {
		return
	}
	if retire {
		s.links.retire(s.link)
	}
	s.links.release(s.link)
	s.link = nil
}
