package lease

import (
	"math"
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
	m.owed, m.oldest = false, nil
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
	if m.silent() {
		m.tolerate()
	}
	m.phase, m.lastErr, m.moveAt = down, err, never
	m.suspectOldest()
	many := len(m.due)+len(m.sent)+len(m.abandoned) > 1
	for len(m.sent) > 0 {
		l := m.sent[len(m.sent)-1].lease
		l.spread = l.spread || many
		m.move(l, Due)
	}
	for len(m.abandoned) > 0 {
		m.move(m.abandoned[len(m.abandoned)-1].lease, Gone)
	}
}

// suspectOldest notes for which lease the stream owed the next answer.
func (m *Machine) suspectOldest() {
	m.owed, m.oldest = len(m.sent)+len(m.abandoned) > 0, nil
	for _, q := range []queue{m.sent, m.abandoned} {
		for _, owed := range q {
			if m.oldest == nil || owed.lease.request < m.oldest.request {
				m.oldest = owed.lease
			}
		}
	}
}

// Refused notes that the error which the stream was lost with was no fault: the
// same request would meet it again. Answers come in the order of requests, so it
// was the oldest one that was refused, or if there was none the stream itself.
// PermissionDenied may be about the keys of one lease; any other refusal is about
// all, and whoever wants one answer learns of it.
//
// A lease that was refused may still be alive, and the refusal may be taken back,
// as when a role is being changed. It is set aside for a while, so that the others
// are not held up by it.
func (m *Machine) Refused(now time.Time, err error) {
	m.at(now)
	owed, l := m.owed, m.oldest
	m.owed, m.oldest = false, nil
	if !owed || status.Code(err) != codes.PermissionDenied {
		for _, q := range append(queue(nil), m.due...) {
			m.refuse(q.lease, err)
		}
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

// refuse tells those who want one answer that there is none.
func (m *Machine) refuse(l *entry, err error) {
	m.endSubscribers(l, err, func(s *Subscriber) bool { return s.Once })
	m.reconcile(l)
}

// Leaderless ends the subscriptions of those who wanted to learn that no endpoint
// knows a leader.
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

// Sendable reports whether there are requests to take.
func (m *Machine) Sendable() bool { return m.phase == open && len(m.due) > 0 }

// Waits reports whether there are requests, and no stream that takes them.
func (m *Machine) Waits() bool { return m.phase == down && len(m.due) > 0 }

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
// a quarter of the time that is left to the lease which ends soonest, but not less
// than a certain part of its TTL, and up to half as much more, so that clients
// which lost their streams together do not come back together.
func (m *Machine) Pause(now time.Time) time.Duration {
	m.at(now)
	l, end := m.due.next()
	for _, q := range m.waiting {
		if q.lease.deadline < end {
			l, end = q.lease, q.lease.deadline
		}
	}
	if l == nil {
		return math.MaxInt64
	}
	least := max(end.sub(m.now)/pauseShare, minPauseOf(m.ttlOf(l)))
	return least + time.Duration(m.random()*float64(least)/2)
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
		wake = min(wake, m.quiet.add(m.silenceLimit()))
	}
	wake = min(wake, m.moveAt)
	if wake == never {
		return time.Time{}, false
	}
	return m.epoch.Add(time.Duration(wake)), true
}
