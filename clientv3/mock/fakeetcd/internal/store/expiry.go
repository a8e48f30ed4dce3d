package store

import "time"

// RunLeases starts the clock of leases: each has its whole TTL from now on, as when a member becomes the
// leader, and is revoked when it is not renewed within it.
func (s *Store) RunLeases() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timed = true
	for id, l := range s.leases {
		s.renewLocked(id, l)
	}
}

// StopLeases stops the clock: no lease expires until RunLeases.
func (s *Store) StopLeases() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timed = false
	for _, l := range s.leases {
		if l.timer != nil {
			l.timer.Stop()
		}
	}
}

// renewLocked gives a lease its whole TTL, if the clock runs.
func (s *Store) renewLocked(id int64, l *lease) {
	if !s.timed {
		return
	}
	ttl := time.Duration(l.ttl) * time.Second
	l.ends = time.Now().Add(ttl)
	if l.timer != nil {
		l.timer.Reset(ttl)
		return
	}
	l.timer = time.AfterFunc(ttl, func() { s.expire(id, l) })
}

// expire revokes a lease whose TTL has passed. It was perhaps renewed or revoked as the timer fired.
func (s *Store) expire(id int64, l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timed && s.leases[id] == l && !time.Now().Before(l.ends) {
		s.revokeLocked(id, l)
	}
}
