package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/grpclog"
	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/registry"
	"github.com/quorate/quorate/resolver/internal/feed"
	"github.com/quorate/quorate/resolver/internal/lastgood"
)

// Reasons why there are no endpoints or why they may be out of date, other than an outage.
var (
	errNone        = errors.New("no endpoint is registered")
	errUnanswered  = errors.New("etcd has not answered yet")
	errMassRemoval = errors.New("endpoints are gone at once, and stay in use for")
)

var logger = grpclog.Component("quorate-etcd")

const (
	// staleAfter is how long channels that open or leave idle mode wait for etcd before they
	// receive the last list of the service.
	staleAfter = 300 * time.Millisecond
	// listShare bounds the time spent on lists under continuous changes: one part in five.
	listShare = 5
)

// source follows one service, for all its channels. One goroutine processes changes, another
// builds lists.
type source struct {
	*feed.Feed[feed.State]
	service string
	log     *zap.Logger
	cancel  context.CancelFunc
	dirty   chan struct{} // the list must be built again

	mu      sync.Mutex
	listing listing
	listed  bool // etcd has sent the list
	guard   lastgood.Guard[gresolver.Endpoint]
	old     bool                 // the guard has only seen the list of the last source
	last    []gresolver.Endpoint // as published
	stopped bool
	kept    int       // the number of endpoints that the guard keeps
	stale   bool      // last is from an earlier source
	lost    error     // why contact with etcd is lost, nil while it is not
	lostAt  time.Time // since when
	problem *feed.Problem
	reason  error // of the problem
}

// startSource starts a source with the list of the last one.
func startSource(client *clientv3.Client, cfg Config, service string, last []gresolver.Endpoint) *source {
	ctx, cancel := context.WithCancel(context.Background())
	s := &source{
		Feed: feed.New(feed.State{}), service: service, log: registry.Logger(client),
		cancel: cancel, dirty: make(chan struct{}, 1), last: last,
		listing: listing{byAddress: map[string][]*entry{}},
		guard:   newGuard(cfg.MassRemovalDelay),
	}
	if s.old = len(last) > 0; s.old {
		s.guard.Update(time.Now(), last, 0)
	}
	follower := registry.NewFollower(client, service, cfg.ReportAfter)
	if cfg.Decode != nil {
		follower.Decode = func(value []byte) (e registry.Endpoint, err error) {
			e.Addr, e.Metadata, err = cfg.Decode(value)
			return e, err
		}
	}
	go func() {
		if err := follower.Follow(ctx, s); errors.Is(err, registry.ErrClientClosed) {
			s.Lost(fmt.Errorf("%w; the resolver needs it for as long as there are channels", err))
		}
	}()
	go s.run(ctx)
	return s
}

func newGuard(delay time.Duration) lastgood.Guard[gresolver.Endpoint] {
	return lastgood.Guard[gresolver.Endpoint]{Key: address, Delay: delay}
}

// Stop implements lastgood.Source.
func (s *source) Stop() (last []gresolver.Endpoint, ok bool) {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	return s.last, len(s.last) > 0
}

// Changed implements registry.Observer.
func (s *source) Changed(changes []registry.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := !s.listed
	s.listed = true
	for _, c := range changes {
		if !c.Deleted && c.Endpoint.Addr == "" {
			s.log.Warn("a registered endpoint has no address and is ignored", zap.String("key", c.Key))
			continue
		}
		changed = s.listing.apply(c) || changed
	}
	if changed {
		select {
		case s.dirty <- struct{}{}:
		default:
		}
	}
}

// run builds lists and pauses after each, so that continuous changes cost at most listShare of the
// time. A change waits for at most four times the time of building a list.
func (s *source) run(ctx context.Context) {
	due := time.NewTimer(staleAfter)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		case <-s.dirty:
		}
		began := time.Now()
		if at := s.list(began); !at.IsZero() {
			due.Reset(time.Until(at))
		} else {
			due.Stop()
		}
		rest := time.NewTimer((listShare - 1) * time.Since(began))
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return
		}
	}
}

// list builds the list and publishes it. It returns when the same endpoints have another list;
// zero: never.
func (s *source) list(now time.Time) (again time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.listed {
		s.stale = len(s.last) > 0
		s.publishLocked()
		return time.Time{}
	}
	endpoints := s.listing.endpoints()
	if s.old && len(endpoints) > 0 { // the list may have changed completely
		s.guard, s.old = newGuard(s.guard.Delay), false
	}
	kept := s.guard.Update(now, endpoints, 0)
	s.last, s.kept, s.stale = endpoints, len(kept.Endpoints), false
	if s.kept > 0 {
		s.last = sorted(append(slices.Clone(endpoints), kept.Endpoints...))
	}
	s.publishLocked()
	return kept.Due
}

func (s *source) publishLocked() {
	if s.stopped {
		return
	}
	switch text, reason := s.currentProblem(); {
	case reason == nil:
		s.problem = nil
	case s.problem == nil || !errors.Is(reason, s.reason):
		s.problem = &feed.Problem{Text: fmt.Sprintf("etcd: service %q: %s", s.service, text)}
		if s.lost == nil && len(s.last) > 0 || s.lost != nil && s.lostAt.IsZero() {
			logger.Warning(s.problem.Text)
		}
		s.reason = reason
	}
	s.Publish(feed.State{Endpoints: s.last, Listed: s.listed || s.stale, Problem: s.problem})
}

// currentProblem returns why there are no endpoints or why they may be out of date, as text and as
// an error; nil if there is no problem.
func (s *source) currentProblem() (text string, reason error) {
	n := len(s.last)
	switch {
	case s.lost != nil:
		reason = s.lost
	case s.stale:
		reason = errUnanswered
	case s.kept > 0:
		return fmt.Sprintf("%d of %d %v %v", s.kept, n, errMassRemoval, s.guard.Delay), errMassRemoval
	case s.listed && n == 0:
		reason = errNone
	default:
		return "", nil
	}
	if n > 0 {
		return fmt.Sprintf("%v; the last list, of %d, stays in use", reason, n), reason
	}
	return reason.Error(), reason
}

// Lost implements registry.Observer.
func (s *source) Lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.guard.Suspend(now)
	s.lost = err
	s.stale = !s.listed && len(s.last) > 0
	s.publishLocked()
	if s.lostAt.IsZero() {
		s.lostAt = now
	}
}

// Regained implements registry.Observer.
func (s *source) Regained() {
	s.mu.Lock()
	defer s.mu.Unlock()
	logger.Infof("service %q: contact with etcd is restored after %v", s.service, time.Since(s.lostAt).Round(time.Millisecond))
	s.lost, s.lostAt = nil, time.Time{}
	s.publishLocked()
}
