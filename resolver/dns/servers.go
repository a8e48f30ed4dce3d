package dns

import (
	"sync"
	"time"
)

// silentFor is for how long a DNS server that did not answer is passed over.
const silentFor = 30 * time.Second

// servers knows which DNS servers do not answer. Package net begins each query with the first
// one of resolv.conf(5), and there are queries for each search domain: without this, a server
// that is dead would cost each of them its timeout. A server is named by network and address.
type servers struct {
	mu        sync.Mutex
	silent    map[string]time.Time // until when it is passed over
	answering string               // what answered last
}

// passOver reports whether a server is not to be asked: it is silent, and another one answers.
// When its time is over, one query finds out whether it still is.
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

func (s *servers) answered(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// forget has the next lookup ask all servers. It is called after a lookup that failed: those
// that answered may not be in resolv.conf(5) any more.
func (s *servers) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent, s.answering = nil, ""
}
