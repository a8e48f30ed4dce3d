package store

import (
	"sync"
	"time"
)

// RunLeases starts the clock of leases: each has its whole TTL from now on, as when a member becomes the
// leader, and is revoked when it is not renewed within it. The clock takes mu for that.
func (s *Store) RunLeases(mu sync.Locker) {
	s.clock = mu
	for id, l := range s.leases {
		s.renew(id, l)
	}
}

// StopLeases stops the clock: no lease expires until RunLeases.
func (s *Store) StopLeases() {
	s.clock = nil
	for _, l := range s.leases {
		if l.timer != nil {
			l.timer.Stop()
		}
	}
}

// renew gives a lease its whole TTL, if the clock runs.
func (s *Store) renew(id int64, l *lease) {
	if s.clock == nil {
		return
	}
	ttl := time.Duration(l.ttl) * time.Second
	l.ends = time.Now().Add(ttl)
	if l.timer != nil {
		l.timer.Reset(ttl)
		return
	}
	mu := s.clock
	l.timer = time.AfterFunc(ttl, func() {
		mu.Lock()
		defer mu.Unlock()
		s.expire(id, l)
	})
}

// expire revokes a lease whose TTL has passed. It was perhaps renewed or revoked as the timer fired.
func (s *Store) expire(id int64, l *lease) {
	if s.clock != nil && s.leases[id] == l && !time.Now().Before(l.ends) {
		s.revoke(id, l)
	}
}
