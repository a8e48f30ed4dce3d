package watch

import "time"

// busy is the number of events per second from which a stream accepts no more
// watches: etcd sends a stream's events one response after the other, and one
// goroutine reads them here. It is a tenth of what one stream carries on an
// ordinary machine.
const busy = 10_000

// traffic counts the events of a stream second by second.
type traffic struct {
	second      time.Time // when the current count began
	count, last int
}

// add counts events that arrive at now.
func (t *traffic) add(events int, now time.Time) {
	if now.Sub(t.second) >= time.Second {
		t.roll(now)
	}
	t.count += events
}

// busy reports whether the last full second had that many events.
func (t *traffic) busy(now time.Time) bool {
	t.roll(now)
	return t.last >= busy
}

func (t *traffic) roll(now time.Time) {
	switch age := now.Sub(t.second); {
	case age < time.Second:
	case age < 2*time.Second:
		t.second, t.last, t.count = now, t.count, 0
	default:
		t.second, t.last, t.count = now, 0, 0
	}
}
