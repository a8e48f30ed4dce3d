package wire

import (
	"slices"
	"time"
)

// renewAfter is the part of its TTL after which a lease is to be renewed: a third,
// as both clients have it.
const renewAfter = 3

// renewal is what is known of one lease.
type renewal struct {
	sent time.Duration // when the last keepalive was
	ttl  time.Duration // 0 before the first answer
}

// late returns how long the next keepalive has been due.
func (l renewal) late(now time.Duration) time.Duration {
	if l.ttl == 0 {
		return 0
	}
	return max(now-l.sent-l.ttl/renewAfter, 0)
}

// lateness reads a log.
func lateness(log []message, from, to time.Duration) (median, longest time.Duration) {
	var late []time.Duration
	leases := make(map[int64]renewal)
	for _, m := range log {
		if m.at > to {
			break
		}
		l, known := leases[m.lease]
		if m.ttl > 0 {
			l.ttl = m.ttl
		} else {
			if known && m.at >= from {
				late = append(late, l.late(m.at))
			}
			l.sent = m.at
		}
		leases[m.lease] = l
	}
	for _, l := range leases {
		if overdue := l.late(to); overdue > 0 {
			late = append(late, overdue)
		}
	}
	if len(late) == 0 {
		return 0, 0
	}
	slices.Sort(late)
	return late[(len(late)-1)/2], late[len(late)-1]
}
