package measure

import (
	"slices"
	"time"
)

// outside are the events that a watch must deliver for writes that were made past the links, in order.
type outside struct {
	undelivered []outsideWrite
	seen        int64 // the latest that was delivered
}

type outsideWrite struct {
	seq int64
	at  time.Duration
	row *row
}

// note records how late writes are at a time.
func (*outside) note(writes []outsideWrite, at time.Duration) {
	for _, w := range writes {
		w.row.outside = max(w.row.outside, at-w.at)
	}
}

// OutsideWrite notes that a write past the links was acknowledged; they are numbered from 1.
func (m *Meter) OutsideWrite(seq int64, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.current(); r != nil && seq > m.outside.seen {
		m.outside.undelivered = append(m.outside.undelivered, outsideWrite{seq, at, r})
	}
}

// OutsideEvent notes that the event of such a write was delivered.
func (m *Meter) OutsideEvent(seq int64, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := &m.outside
	o.seen = max(o.seen, seq)
	n := slices.IndexFunc(o.undelivered, func(w outsideWrite) bool { return w.seq > seq })
	if n < 0 {
		n = len(o.undelivered)
	}
	o.note(o.undelivered[:n], at)
	o.undelivered = o.undelivered[n:]
}
