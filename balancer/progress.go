package balancer

// laden is how many bytes in a round of probes show that a connection carries more than
// the answers to these, a PING and its like: 16 kbit/s, where a round is shortest. Answers
// may be behind that, in whatever buffers lie between, for as long as it takes.
const laden = 512

// progress is how far a connection has come, by the kernel's account. It is all zero where
// the kernel gives none: on other systems than Linux, and for what is not TCP.
type progress struct {
	received uint64 // bytes
	acked    uint64 // bytes that were sent and have arrived
	unsent   uint32 // bytes that wait to be sent: the network takes no more
}

// carriedSince reports whether the connection has carried something else than probes.
// That a peer acknowledges what it is sent shows nothing: the kernel of a frozen one does.
// Only where more waits than the network takes is it a sign that the network is at work.
func (p progress) carriedSince(was progress) bool {
	if p.received < was.received || p.acked < was.acked {
		return false // it is another connection
	}
	return p.received-was.received >= laden || p.unsent > 0 && p.acked-was.acked >= laden
}

func (s *socket) progress() progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return progress{}
	}
	return progressOf(s.conn)
}
