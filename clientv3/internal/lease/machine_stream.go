package lease

import (
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// This file is what the machine knows of the stream.

// Opening notes that a stream is being opened.
func (m *Machine) Opening(now time.Time) {
	m.at(now)
	m.phase, m.quiet, m.moveAt = opening, m.now, never
}

// Opened notes that requests can be sent.
func (m *Machine) Opened(now time.Time) {
	m.at(now)
	m.phase, m.quiet = open, m.now
}

// Lost notes that the stream, or its opening, failed. What is unanswered is due
// again. Nothing follows from a second Lost.
func (m *Machine) Lost(now time.Time, err error) {
	m.at(now)
	if m.phase == down {
		return
	}
	m.phase, m.lastErr, m.moveAt = down, err, never
	m.oldest = nil
	for _, q := range []*queue{&m.sent, &m.abandoned} {
		for len(*q) > 0 {
			l := (*q)[len(*q)-1].lease
			if m.oldest == nil || l.request < m.oldest.request {
				m.oldest = l
			}
			if l.state == Abandoned {
				m.move(l, Gone)
				continue
			}
			l.crowd = true
			m.move(l, Due)
		}
	}
}

// Refused notes that the error which the stream was lost with was no fault: the
// same request would meet it again. Answers come in the order of requests, so it
// was the oldest one that was refused, or if there was none the stream itself.
//
// A lease that was refused may still be alive, and the refusal may be taken back,
// as when a role is being changed. It is set aside for a while, so that the others
// are not held up by it.
func (m *Machine) Refused(now time.Time, err error) {
	m.at(now)
	refused := func(s *Subscriber) bool { return s.Once }
	if m.oldest == nil {
		for _, q := range append(queue(nil), m.due...) {
			m.endThose(q.lease, err, refused)
			m.settle(q.lease)
		}
		return
	}
	l := m.oldest
	m.oldest = nil
	if l.state != Due {
		return
	}
	m.endThose(l, err, refused)
	m.settle(l)
	if l.state == Due {
		l.due = m.now.add(min(m.ttlOf(l)/3, l.deadline.sub(m.now)/4))
		m.move(l, Waiting)
	}
}

// Leaderless ends the subscriptions of those who wanted to hear that no endpoint
// knows a leader.
func (m *Machine) Leaderless(now time.Time) {
	m.at(now)
	for _, l := range m.leases {
		n := len(l.subscribers)
		m.endThose(l, rpctypes.ErrNoLeader, func(s *Subscriber) bool { return s.RequireLeader })
		if len(l.subscribers) < n {
			m.settle(l)
		}
	}
}

// Sendable reports whether there are requests to take.
func (m *Machine) Sendable() bool { return m.phase == open && len(m.due) > 0 }

// Take appends to ids the leases to renew now, those that end soonest first, and
// returns it when it is as long as its capacity or all are in it. They count as
// sent.
func (m *Machine) Take(now time.Time, ids []int64) []int64 {
	m.at(now)
	for m.Sendable() && len(ids) < cap(ids) {
		l, _ := m.due.next()
		m.requests++
		l.request, l.sent = m.requests, m.now
		m.move(l, Awaiting)
		ids = append(ids, l.id)
	}
	return ids
}

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

// patience is how long the stream may owe something and stay silent.
func (m *Machine) patience() time.Duration { return min(m.shortest/silenceShare, maxSilence) }

// Silent returns an error if the stream has to be given up: it owes answers, and
// has given none for a quarter of the TTL of the shortest lease concerned, or for
// 2 s. The same holds for opening one. It is silence that counts, not the age of a
// request: a server works through a long queue one by one.
func (m *Machine) Silent(now time.Time) error {
	m.at(now)
	if !m.demands() || m.now < m.quiet.add(m.patience()) {
		return nil
	}
	what := "answered no keepalive"
	if m.phase == opening {
		what = "opened no keepalive stream"
	}
	return status.Error(codes.Unavailable, fmt.Sprintf("etcdclient: the endpoint %s for %v", what, m.patience()))
}

// Removed notes that the endpoint of the stream is no longer one of the client's.
func (m *Machine) Removed(now time.Time) {
	m.at(now)
	if m.phase == open && m.moveAt == never {
		m.moveAt = m.now.add(time.Duration(m.random() * float64(maxMove)))
	}
}

// Moving reports whether it is time to leave an endpoint that was removed.
func (m *Machine) Moving(now time.Time) bool {
	m.at(now)
	return m.moveAt <= m.now
}

// Pause returns how long to wait at most before the next attempt to open a stream:
// a quarter of the time that is left to the lease which ends soonest.
func (m *Machine) Pause(now time.Time) time.Duration {
	m.at(now)
	_, end := m.due.next()
	return max(end.sub(m.now)/4, minPause)
}

// Wake returns when time itself is next a reason to act: to call Advance, Silent
// and Moving. It is false if there is none.
func (m *Machine) Wake() (time.Time, bool) {
	_, wake := m.waiting.next()
	for _, q := range []*queue{&m.due, &m.sent} {
		_, when := q.next()
		wake = min(wake, when)
	}
	if m.demands() {
		wake = min(wake, m.quiet.add(m.patience()))
	}
	wake = min(wake, m.moveAt)
	if wake == never {
		return time.Time{}, false
	}
	return m.epoch.Add(time.Duration(wake)), true
}
