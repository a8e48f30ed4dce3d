package balancer

import (
	"sync"

	"github.com/quorate/quorate/health"
)

// shards is the number of locks over which the in-flight calls of an endpoint are spread by a
// hash of their start.
const shards = 8

// shardAt returns the number of the lock for a call that begins at m. It is Fibonacci hashing, because
// the last bits of all moments of a coarse clock may be the same.
func shardAt(m health.Moment) uint64 { return uint64(m) * 0x9E3779B97F4A7C15 >> 32 % shards }

// shard holds some of the calls in flight, the oldest first.
type shard struct {
	mu          sync.Mutex
	first, last *call
	_           [40]byte // to the end of a cache line
}

// add appends a call.
func (s *shard) add(c *call) {
	s.mu.Lock()
	if s.last == nil {
		s.first = c
	} else {
		s.last.next, c.prev = c, s.last
	}
	s.last = c
	s.mu.Unlock()
}

// delete removes a call, and reports whether it was overdue.
func (s *shard) delete(c *call) (overdue bool) {
	s.mu.Lock()
	if c.prev == nil {
		s.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		s.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.next, c.prev, overdue = nil, nil, c.overdue
	s.mu.Unlock()
	return overdue
}

// appendOn appends the calls on a connection, all calls for nil.
func (s *shard) appendOn(conn *subConn, calls []*call) []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := s.first; c != nil; c = c.next {
		if conn == nil || c.conn == conn {
			calls = append(calls, c)
		}
	}
	return calls
}
