package watch

import (
	"errors"
	"fmt"
)

// check checks the invariants of a session.
func (sm *simulation) check() {
	if err := sm.invariants(); err != nil {
		sm.t.Fatal(err)
	}
}

func (sm *simulation) invariants() error {
	places, err := whereabouts(sm.ss)
	if err != nil {
		return err
	}
	for i, r := range sm.readers {
		switch s := r.sub; {
		case r.wanted != (places[s] != parked):
			return fmt.Errorf("reader %d: wanted: %v, but its subscription is %v", i, r.wanted, s.state)
		case s.state != places[s]:
			return fmt.Errorf("reader %d: its subscription is %v and stands where it would be %v", i, s.state, places[s])
		case r.next != s.next:
			return fmt.Errorf("reader %d: it has everything before revision %d, its subscription resumes at %d", i, r.next, s.next)
		}
	}
	if sm.ss.progress.early && !sm.srv.early && !sm.srv.kine {
		return errors.New("the server is held to be early, and is not")
	}
	return protocol(sm.ss)
}

// whereabouts returns where the session keeps each subscription. Each must be in one place only, and know it.
func whereabouts(ss *session) (map[*subscription]state, error) {
	places, listed := make(map[*subscription]state), make(map[*subscription]bool)
	for _, s := range ss.queue {
		if listed[s] || !s.listed {
			return nil, fmt.Errorf("a subscription is queued twice, or does not know that it is: %+v", s)
		}
		listed[s] = true
		if s.state == queued {
			places[s] = queued
		}
	}
	if gone := len(listed) - len(places); gone != ss.gone {
		return nil, fmt.Errorf("%d of the queue were removed, %d are accounted for", gone, ss.gone)
	}
	place := func(s *subscription, id int64, where state) error {
		if places[s] != parked || s.state != where || s.id != id {
			return fmt.Errorf("%v as watch %d, and also %v: %+v", where, id, places[s], s)
		}
		places[s] = where
		return nil
	}
	for _, a := range ss.pending {
		if a.sub == nil {
			continue
		}
		if err := place(a.sub, a.id, asked); err != nil {
			return nil, err
		}
	}
	for id, s := range ss.live {
		if err := place(s, id, live); err != nil {
			return nil, err
		}
	}
	return places, nil
}

// protocol checks the requests in flight.
func protocol(ss *session) error {
	for i := range ss.pending {
		if i > 0 && ss.pending[i].id <= ss.pending[i-1].id {
			return fmt.Errorf("creates out of order: %v", ss.pending)
		}
	}
	switch under := len(ss.pending); {
	case !ss.connected && len(ss.out)+under+len(ss.live) > 0:
		return fmt.Errorf("without a stream: %d requests, %d creates under way, %d watches", len(ss.out), under, len(ss.live))
	case ss.mode != pipelined && under > 1:
		return fmt.Errorf("%d creates under way, one is allowed", under)
	case ss.connected && len(ss.queue) > 0 && (ss.mode == pipelined || under == 0):
		return fmt.Errorf("%d subscriptions wait for nothing", len(ss.queue))
	}
	return nil
}
