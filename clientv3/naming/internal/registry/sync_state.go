package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/pause"
)

const (
	// checkInterval is the time between two checks of the health of the client's
	// endpoints. A check reads a table.
	checkInterval = 500 * time.Millisecond

	// DefaultTolerance is how long etcd may be unreachable before the Follower reports
	// it. Shorter outages are elections or reconnections, and do not matter while there
	// is a list.
	DefaultTolerance = time.Second

	// suspicionLimit is how long all endpoints may be Suspected before they count as out.
	// With a witness, the client's probes decide within half a second; when all endpoints
	// are silent, they stay Suspected.
	suspicionLimit = 3 * time.Second
)

// errUnanswered is reported when the health of the endpoints gives no better reason.
var errUnanswered = errors.New("etcd does not answer")

// syncState is whether a Follower is synced, and what its observer was notified of. It is synced
// while a watch is established and endpoints serve. The zero value is synced.
type syncState struct {
	statuses  func() []health.Status
	observer  Observer
	tolerance time.Duration

	mu       sync.Mutex
	since    time.Time // when it became stale, zero while synced
	watching bool      // a watch is established, which the client resumes by itself
	cause    error     // the last error that means that etcd is unreachable, nil for none
	reported string    // the reason last reported to the observer, "" for none
}

// markStale marks the state stale until a watch is established.
func (s *syncState) markStale() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.staleLocked()
}

func (s *syncState) staleLocked() {
	s.watching = false
	s.beginLocked()
}

func (s *syncState) beginLocked() {
	if s.since.IsZero() {
		s.since = time.Now()
	}
}

// markSynced is called when a watch is established.
func (s *syncState) markSynced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.syncedLocked()
}

func (s *syncState) syncedLocked() {
	s.watching, s.since, s.cause = true, time.Time{}, nil
	if s.reported != "" {
		s.reported = ""
		s.observer.Regained()
	}
}

// refused reports an error that etcd returned.
func (s *syncState) refused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.staleLocked()
	s.notifyLocked(err.Error(), err)
}

// unanswered records an error that means that etcd is unreachable, and reports it if that
// lasts.
func (s *syncState) unanswered(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.staleLocked()
	s.cause = err
	if s.reported == "" && time.Since(s.since) >= s.tolerance {
		s.notifyLocked(err.Error(), err)
	}
}

// checkUntilDone checks the endpoints until ctx ends.
func (s *syncState) checkUntilDone(ctx context.Context) {
	for pause.For(ctx, checkInterval) == nil {
		s.check()
	}
}

func (s *syncState) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	view, worst := evaluate(s.statuses(), now)
	switch {
	case view == out:
		s.beginLocked()
	case view == serving && s.watching:
		s.syncedLocked()
	}
	if s.since.IsZero() || now.Sub(s.since) < s.tolerance {
		return
	}
	if view == out {
		s.notifyLocked(worst.State.String(), fmt.Errorf("etcd cannot be reached: no endpoint serves; %s is %v (%v)",
			worst.Endpoint, worst.State, worst.Evidence))
	} else if s.reported == "" {
		err := cmp.Or(s.cause, errUnanswered)
		s.notifyLocked(err.Error(), err)
	}
}

// notifyLocked reports a new reason to the observer.
func (s *syncState) notifyLocked(reason string, err error) {
	if s.reported == reason {
		return
	}
	s.reported = reason
	s.observer.Lost(err)
}

// view is the state of a cluster, derived from its endpoints.
type view uint8

const (
	unclear view = iota // an endpoint that may serve has no evidence yet
	serving             // at least one endpoint serves
	out                 // none does
)

// evaluate returns the state of the cluster and, if it is out, the status of an endpoint as
// the reason.
func evaluate(statuses []health.Status, now time.Time) (view, health.Status) {
	v := unclear
	var worst health.Status
	open := false
	for _, st := range statuses {
		switch st.State {
		case health.Serving, health.Slow:
			return serving, health.Status{}
		case health.Suspected:
			if now.Sub(st.Since) < suspicionLimit {
				return serving, health.Status{}
			}
			v, worst = out, st
		case health.Lagging, health.Degraded, health.NotServing, health.Dead:
			v, worst = out, st
		case health.Restricted, health.Draining: // these serve no calls and are no evidence
		default:
			open = true
		}
	}
	if open {
		return unclear, health.Status{}
	}
	return v, worst
}
