package lease

import (
	"fmt"
	"math"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Opening records that a stream is being opened.
func (m *Machine) Opening(now time.Time) {
	m.at(now)
	m.phase, m.quiet, m.moveAt = opening, m.now, never
	m.oldest = nil
}

// Opened records that requests can be sent.
func (m *Machine) Opened(now time.Time) {
	m.at(now)
	m.phase, m.quiet = open, m.now
}

// Lost records that the stream, or its opening, failed. Unanswered requests are due
// again. A second Lost has no effect.
//
// etcd's grpc-proxy hides a refusal behind Canceled, and a fault as well. After another stream that
// ended without an answer to a request, Canceled ends the Once subscribers.
func (m *Machine) Lost(now time.Time, err error) {
	m.at(now)
	if m.phase == down {
		return
	}
	if m.silent() {
		m.tolerate()
	}
	refused := m.lastErr != nil && m.unansweredAtLoss && status.Code(err) == codes.Canceled
	m.phase, m.lastErr, m.moveAt = down, err, never
	m.suspectOldest()
	many := len(m.due)+len(m.sent)+len(m.abandoned) > 1
	for len(m.sent) > 0 {
		l := m.sent[len(m.sent)-1]
		l.spread = l.spread || many
		m.move(l, Due)
	}
	for len(m.abandoned) > 0 {
		m.move(m.abandoned[len(m.abandoned)-1], Gone)
	}
	if refused && m.unansweredAtLoss {
		m.refuseDue(err)
	}
}

// suspectOldest records the oldest unanswered lease of the stream.
func (m *Machine) suspectOldest() {
	m.unansweredAtLoss, m.oldest = len(m.sent)+len(m.abandoned) > 0, nil
	for _, q := range []queue{m.sent, m.abandoned} {
		for _, l := range q {
			if m.oldest == nil || l.request < m.oldest.request {
				m.oldest = l
			}
		}
	}
}

// Refused records that the stream's error was a refusal, not a fault: the same
// request would get it again. Answers arrive in the order of requests, so the
// server refused the oldest unanswered one, or the stream itself if there was none.
// PermissionDenied may concern the keys of one lease; any other refusal concerns
// all leases, and ends the Once subscribers.
//
// A refused lease may still be alive, and the refusal may be temporary, for example
// while a role is being changed. The lease is postponed, so it does not delay the
// others.
func (m *Machine) Refused(now time.Time, err error) {
	m.at(now)
	unanswered, l := m.unansweredAtLoss, m.oldest
	m.unansweredAtLoss, m.oldest = false, nil
	if !unanswered || status.Code(err) != codes.PermissionDenied {
		m.refuseDue(err)
	}
	if l == nil || l.state != Due {
		return
	}
	m.refuse(l, err)
	if l.state == Due {
		aside := min(m.ttlOf(l)/3, l.deadline.sub(m.now)/pauseShare)
		l.due = min(m.now.add(max(aside, minPauseOf(m.ttlOf(l)))), l.deadline)
		m.move(l, Waiting)
	}
}

// refuseDue ends the Once subscribers of all leases with due requests.
func (m *Machine) refuseDue(err error) {
	for _, l := range slices.Clone(m.due) {
		m.refuse(l, err)
	}
}

// refuse ends the Once subscribers of a lease.
func (m *Machine) refuse(l *entry, err error) {
	m.endSubscribers(l, err, func(s *Subscriber) bool { return s.Once })
	m.reconcile(l)
}

// Leaderless ends the subscriptions with RequireLeader, because no endpoint knows a
// leader.
func (m *Machine) Leaderless(now time.Time) {
	m.at(now)
	for _, l := range m.leases {
		n := len(l.subscribers)
		m.endSubscribers(l, rpctypes.ErrNoLeader, func(s *Subscriber) bool { return s.RequireLeader })
		if len(l.subscribers) < n {
			m.reconcile(l)
		}
	}
}

// Sendable reports whether Take would return requests.
func (m *Machine) Sendable() bool { return m.phase == open && len(m.due) > 0 }

// Waits reports whether requests are due while there is no stream.
func (m *Machine) Waits() bool { return m.phase == down && len(m.due) > 0 }

// Take returns the requests to send now, up to the limit, with the leases that expire first
// in front. They count as sent. Each call allocates them: interceptors may read a message
// after it was sent.
func (m *Machine) Take(now time.Time, limit int) []pb.LeaseKeepAliveRequest {
	m.at(now)
	if !m.Sendable() {
		return nil
	}
	requests := make([]pb.LeaseKeepAliveRequest, min(len(m.due), limit))
	for i := range requests {
		l, _ := m.due.next()
		m.requests++
		l.request, l.sent = m.requests, m.now
		m.move(l, Awaiting)
		requests[i].ID = l.id
	}
	return requests
}

// Removed records that the stream's endpoint is no longer one of the client's.
func (m *Machine) Removed(now time.Time) {
	m.at(now)
	if m.phase == open && m.moveAt == never {
		m.moveAt = m.now.add(time.Duration(m.random() * float64(maxMove)))
	}
}

// Moving reports whether it is time to move off a removed endpoint.
func (m *Machine) Moving(now time.Time) bool {
	m.at(now)
	return m.moveAt <= m.now
}

// Pause returns the longest wait before the next attempt to open a stream: a
// quarter of the time left to the lease that expires first, but at least a certain
// fraction of its TTL. Up to half is added at random, so clients that lost their
// streams together do not return together.
func (m *Machine) Pause(now time.Time) time.Duration {
	m.at(now)
	l, end := m.due.next()
	for _, waiting := range m.waiting {
		if waiting.deadline < end {
			l, end = waiting, waiting.deadline
		}
	}
	if l == nil {
		return math.MaxInt64
	}
	least := max(end.sub(m.now)/pauseShare, minPauseOf(m.ttlOf(l)))
	return least + time.Duration(m.random()*float64(least)/2)
}

// WakeAt returns when to call Advance, Silent and Moving next. It returns false if no
// time is set.
func (m *Machine) WakeAt() (time.Time, bool) {
	_, wake := m.waiting.next()
	for _, q := range []*queue{&m.due, &m.sent} {
		_, when := q.next()
		wake = min(wake, when)
	}
	if m.demands() {
		wake = min(wake, m.quiet.add(m.silenceLimit()))
	}
	wake = min(wake, m.moveAt)
	if wake == never {
		return time.Time{}, false
	}
	return m.epoch.Add(time.Duration(wake)), true
}

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
//
// The stream must move soon off a member that hangs, but not off one that is slow:
// on the next stream the answer would take as long. Only waiting distinguishes the
// two. So the first silence is cut short, each further one may last twice as long,
// and that tolerance is kept while it is needed. etcd's grpc-proxy is always slow in
// this sense: it answers a keepalive when it next renews the lease by itself.
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

func (m *Machine) silent() bool {
	return m.demands() && m.now >= m.quiet.add(m.silenceLimit())
}

// tolerate lets the next stream be silent for twice as long.
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
