package main

import (
	"sync"
	"time"
)

// seen is the worst of a phase.
type seen struct {
	Event, List, QuietList, Write, NotReady time.Duration
	Writes, FailedWrites, Lost              int
}

// meter keeps the worst, and what is overdue at the moment.
type meter struct {
	mu      sync.Mutex
	seen    seen
	pending map[int]*pendingWrite // events that watches have not delivered, by number
	down    time.Time             // since when the API server is not ready, zero if it is
}

// pendingWrite is a write that was answered, and how many watches have not shown it.
type pendingWrite struct {
	at    time.Time
	count int
}

func (m *meter) note(change func(*seen)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.seen)
}

// reset begins a phase.
func (m *meter) reset() {
	m.note(func(s *seen) { *s = seen{} })
}

// read ends a phase. A write that is still pending counts as late as it is by now.
func (m *meter) read() seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.seen
	now := time.Now()
	for _, o := range m.pending {
		if !o.at.IsZero() {
			s.Event = max(s.Event, now.Sub(o.at))
		}
	}
	if !m.down.IsZero() {
		s.NotReady += now.Sub(m.down)
	}
	return s
}

// written notes that the write of an object was answered.
func (m *meter) written(n, watches int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.pending[n]
	if o == nil {
		o = &pendingWrite{}
		m.pending[n] = o
	}
	o.at = time.Now()
	o.count += watches
	m.settle(n, o)
}

// delivered notes that a watch has shown an object, perhaps before its write was answered.
func (m *meter) delivered(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.pending[n]
	if o == nil {
		o = &pendingWrite{}
		m.pending[n] = o
	}
	o.count--
	if !o.at.IsZero() {
		m.seen.Event = max(m.seen.Event, time.Since(o.at))
	}
	m.settle(n, o)
}

func (m *meter) settle(n int, o *pendingWrite) {
	if o.count == 0 {
		delete(m.pending, n)
	}
}

// forget drops a write whose outcome is not known.
func (m *meter) forget(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pending, n)
}

// ready notes what the API server said of itself.
func (m *meter) ready(ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !ok && m.down.IsZero():
		m.down = time.Now()
	case ok && !m.down.IsZero():
		m.seen.NotReady += time.Since(m.down)
		m.down = time.Time{}
	}
}
