package lease

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// This file decides how long the machine waits for a silent stream.
//
// The stream must move soon off a member that hangs, but not off one that is slow:
// on the next stream the answer would take as long. Only waiting distinguishes the
// two. So the first silence is cut short, each further one may last twice as long,
// and that tolerance is kept while it is needed. etcd's grpc-proxy is always slow in
// this sense: it answers a keepalive when it next renews the lease by itself.

// demands reports whether the stream has an unanswered request, or is being opened for a due
// request.
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

// silenceLimit returns how long the stream may be silent with requests unanswered: a quarter
// of the shortest TTL concerned, at most 2 s, or longer if members were slow before.
// If the lease that expires first has too little time left to give the next stream
// more than this one, this stream gets three quarters of it.
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

// Silent returns an error if the stream, or its opening, has unanswered requests and has been
// silent for too long. Silence counts, not the age of a request: a server works
// through a long queue one by one.
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

// tolerate doubles the wait for the next stream.
func (m *Machine) tolerate() {
	m.tolerance = max(m.tolerance, min(2*m.silenceLimit(), maxTolerance))
	m.slow = m.now
}

// pace adapts the tolerance to an answer for a lease with the given TTL. If half
// the tolerance has been enough for one TTL, three rounds of renewals, it is
// halved.
func (m *Machine) pace(ttl time.Duration) {
	switch {
	case m.now.sub(m.quiet) > m.tolerance/2:
		m.slow = m.now
	case m.now >= m.slow.add(ttl):
		m.tolerance, m.slow = m.tolerance/2, m.now
	}
}
