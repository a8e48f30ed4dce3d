package dns

import (
	"cmp"
	"sync"
	"time"
)

// silentFor is how long a DNS server that did not answer is skipped.
const silentFor = 30 * time.Second

// servers records which DNS servers do not answer. Package net begins each query with the first
// server of resolv.conf(5), and sends queries for each search domain: a dead server would cost
// each of them its timeout. A server is identified by network and address.
type servers struct {
	mu        sync.Mutex
	silent    map[string]time.Time // until when it is skipped
	answering string               // the server that answered last
	fewer     int                  // how many servers share the timeout of a lookup; 0 for serversTried
	decided   time.Time            // when fewer was set
}

// perServer returns how much of the timeout of a lookup one server may take.
func (s *servers) perServer(timeout time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return timeout / time.Duration(cmp.Or(s.fewer, serversTried))
}

// passOver reports whether to skip a server: it is silent, and another one answers. After
// silentFor, one query tries it again.
func (s *servers) passOver(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.silent[server]
	if !ok || s.answering == "" || s.answering == server {
		return false
	}
	now := time.Now()
	if now.Before(until) {
		return true
	}
	s.silent[server] = now.Add(silentFor)
	return false
}

func (s *servers) answered(server string, soon bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if soon {
		s.fewer = 0
	}
	delete(s.silent, server)
	s.answering = server
}

func (s *servers) wasSilent(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent == nil {
		s.silent = map[string]time.Time{}
	}
	s.silent[server] = time.Now().Add(silentFor)
	if s.answering == server {
		s.answering = ""
	}
}

// forget makes the next lookup try all servers. It is called after a failed lookup: the servers
// that answered may have been removed from resolv.conf(5). If none answered, they may be slow: in later
// lookups the servers that were asked share all of the timeout. Such a lookup may reach only the first search
// domain, so after a failed one the timeout is shared by serversTried again. Lookups that fail side by side
// count as one.
func (s *servers) forget(began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case began.Before(s.decided): // a lookup beside this one has failed
	case s.fewer != 0 || s.answering != "":
		s.fewer, s.decided = 0, time.Now()
	default:
		s.fewer, s.decided = min(len(s.silent), serversTried), time.Now()
	}
	s.silent, s.answering = nil, ""
}
