package lease

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// This file is how long the machine waits for a stream that says nothing.
//
// A member that hangs has to be left soon, and one that is slow must not be left at
// all: on the next stream the answer would take as long. Nobody can tell them apart
// but by waiting. So the first silence is cut short, each one after it may last
// twice as long, and what was learned that way is kept for as long as it is of use.
// etcd's own gRPC proxy is always slow in this sense: it answers a keepalive when it
// renews the lease by itself the next time.

// demands reports whether the stream, or its opening, owes something.
func (m *Machine) demands() bool {
	switch m.phase {
	case opening:
		return len(m.due) > 0
	case open:
		return len(m.sent)+len(m.abandoned) > 0
	default:
		return false
	}
}

// silenceLimit is how long the stream may owe something and stay silent: a quarter of
// the TTL of the shortest lease concerned, or 2 s, or longer if members were found to
// be slow. When too little is left to the lease that ends soonest for the next stream
// to be given more than this one, this one has three quarters of it.
func (m *Machine) silenceLimit() time.Duration {
	least := min(m.shortest/silenceShare, maxSilence)
	if m.tolerance <= least {
		return least
	}
	_, due := m.due.next()
	_, sent := m.sent.next()
	if left := min(due, sent).sub(m.quiet); m.tolerance > left/3 {
		return max(least, left/4*3)
	}
	return m.tolerance
}

func (m *Machine) silent() bool {
	return m.demands() && m.now >= m.quiet.add(m.silenceLimit())
}

// Silent returns an error if the stream has to be given up, because it owes answers
// and has given none for too long. The same holds for opening one. It is silence that
// counts, not the age of a request: a server works through a long queue one by one.
func (m *Machine) Silent(now time.Time) error {
	m.at(now)
	if !m.silent() {
		return nil
	}
	what := "answered no keepalive"
	if m.phase == opening {
		what = "opened no keepalive stream"
	}
	return status.Error(codes.Unavailable, fmt.Sprintf("etcdclient: the endpoint %s for %v", what, m.silenceLimit()))
}

// tolerate has the next stream be waited for twice as long as this one was.
func (m *Machine) tolerate() {
	m.tolerance = max(m.tolerance, min(2*m.silenceLimit(), maxTolerance))
	m.slow = m.now
}

// pace learns from an answer about a lease with the given TTL. When for as long as
// that, three rounds, half the tolerance would have done, it is halved.
func (m *Machine) pace(ttl time.Duration) {
	switch {
	case m.now.sub(m.quiet) > m.tolerance/2:
		m.slow = m.now
	case m.now >= m.slow.add(ttl):
		m.tolerance, m.slow = m.tolerance/2, m.now
	}
}
