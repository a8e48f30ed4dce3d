package registry

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/health"
)

const (
	// checkInterval is the time between two looks at what the client knows of its
	// endpoints. A look reads a table.
	checkInterval = 500 * time.Millisecond

	// DefaultTolerance is how long etcd may be unreachable before that is told. What is
	// shorter is an election or a connection that is made again, and of no concern to
	// who has a list.
	DefaultTolerance = time.Second

	// suspicionLimit is how long all endpoints may be suspects before they count as out.
	// The client's probes tell a dead one from a slow one in half a second if another one
	// answers; when all are silent they stay suspects.
	suspicionLimit = 3 * time.Second
)

// errUnanswered is told when nothing is known of the endpoints that would say more.
var errUnanswered = errors.New("etcd does not answer")

// syncState is whether a Follower is in touch with etcd, and what its observer was notified of it.
// It is clear while a watch is established and endpoints serve. The zero value is clear.
type syncState struct {
	statuses  func() []health.Status
	observer  Observer
	tolerance time.Duration

	since    time.Time // when it became cloudy, zero while it is clear
	watching bool      // a watch was established, which the client keeps up by itself
	told     string    // why the observer believes that it is cloudy, "" if it does not
}

// markStale begins what only an established watch ends.
func (s *syncState) markStale() {
	s.watching = false
	s.begin()
}

func (s *syncState) begin() {
	if s.since.IsZero() {
		s.since = time.Now()
	}
}

// markSynced is called when a watch is established.
func (s *syncState) markSynced() {
	s.watching, s.since = true, time.Time{}
	if s.told != "" {
		s.told = ""
		s.observer.Regained()
	}
}

// refused tells of an error with which etcd answered.
func (s *syncState) refused(err error) {
	s.markStale()
	s.notify(err.Error(), err)
}

// unanswered notes an error that says that etcd cannot answer, and tells of it when that
// lasts.
func (s *syncState) unanswered(err error) {
	s.markStale()
	if s.told == "" && time.Since(s.since) >= s.tolerance {
		s.notify(err.Error(), err)
	}
}

// during runs f, which waits for an answer, and looks around meanwhile.
func (s *syncState) during(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	looks := time.NewTicker(checkInterval)
	defer looks.Stop()
	for {
		select {
		case <-done:
			return
		case <-looks.C:
			s.check()
		}
	}
}

// check processes what the client knows of its endpoints.
func (s *syncState) check() {
	now := time.Now()
	view, worst := evaluate(s.statuses(), now)
	switch {
	case view == out:
		s.begin()
	case view == serving && s.watching:
		s.markSynced()
	}
	if s.since.IsZero() || now.Sub(s.since) < s.tolerance {
		return
	}
	if view == out {
		s.notify(worst.State.String(), fmt.Errorf("etcd cannot be reached: no endpoint serves; %s is %v (%v)",
			worst.Endpoint, worst.State, worst.Evidence))
	} else if s.told == "" {
		s.notify(errUnanswered.Error(), errUnanswered)
	}
}

// notify tells the observer, unless it knows that reason.
func (s *syncState) notify(reason string, err error) {
	if s.told == reason {
		return
	}
	s.told = reason
	s.observer.Lost(err)
}

// view is what can be said of a cluster from its endpoints.
type view uint8

const (
	unclear view = iota // nothing is known of an endpoint that may serve
	serving             // at least one endpoint serves
	out                 // none does
)

// evaluate returns what can be said of the cluster, and for one that is out an endpoint that
// shows it.
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
		case health.Restricted, health.Draining: // serve nothing, and show nothing
		default:
			open = true
		}
	}
	if open {
		return unclear, health.Status{}
	}
	return v, worst
}
