package wire

import (
	"slices"
	"time"
)

// renewAfter is the part of its TTL after which a lease is to be renewed: a third,
// as both clients have it.
const renewAfter = 3

// Timing is how well leases were renewed.
type Timing struct {
	// Sent is the number of keepalives, without Resends, of leases that had been
	// sent one before.
	Sent int
	// Resends is the number of keepalives that were sent before they were due,
	// while the one before had no answer yet.
	Resends int
	// Late50, Late99 and LateMax are how long after it was due a keepalive was
	// sent: the median, the 99th percentile and the worst. It is due a third of the
	// TTL after the one before it was sent; one that is sent earlier is not late.
	// Of a lease that is overdue at the end it counts what has passed.
	Late50, Late99, LateMax time.Duration
}

// renewal is what is known of one lease.
type renewal struct {
	sent       time.Duration // when the last keepalive was
	ttl        time.Duration // 0 before the first answer
	unanswered bool
}

// late returns how long the next keepalive has been due; it is negative before that.
func (l renewal) late(now time.Duration) time.Duration {
	if l.ttl == 0 {
		return 0
	}
	return now - l.sent - l.ttl/renewAfter
}

// resend reports whether a keepalive that is sent now is one too many.
func (l renewal) resend(now time.Duration) bool {
	return l.unanswered && (l.ttl == 0 || l.late(now) < 0)
}

// timing reads a log.
func timing(log []message, from, to time.Duration) Timing {
	var t Timing
	var late []time.Duration
	leases := make(map[int64]renewal)
	for _, m := range log {
		if m.at > to {
			break
		}
		l, known := leases[m.lease]
		switch {
		case m.ttl > 0:
			l.ttl, l.unanswered = m.ttl, false
			leases[m.lease] = l
			continue
		case !known || m.at < from:
		case l.resend(m.at):
			t.Resends++
		default:
			late = append(late, max(l.late(m.at), 0))
		}
		l.sent, l.unanswered = m.at, true
		leases[m.lease] = l
	}
	t.Sent = len(late)
	for _, l := range leases {
		if overdue := l.late(to); overdue > 0 {
			late = append(late, overdue)
		}
	}
	if len(late) > 0 {
		slices.Sort(late)
		last := len(late) - 1
		t.Late50, t.Late99, t.LateMax = late[last/2], late[last*99/100], late[last]
	}
	return t
}
