package link

import (
	"math/rand/v2"
	"sync"
	"time"
)

// slice is how long a throttled direction transmits at a time; it bounds how much
// is delivered in one burst.
const slice = 50 * time.Millisecond

// retransmitAfter is TCP's least retransmission timeout on Linux.
const retransmitAfter = 200 * time.Millisecond

// reactEvery is the time between two looks at what was sent behind a lost segment.
const reactEvery = 2 * time.Millisecond

// path is one direction of a link, shared by its connections.
type path struct {
	mu        sync.Mutex
	condition Condition
	changed   chan struct{} // closed and replaced when condition changes
	free      time.Time     // when the bytes that were granted under a Rate have left
}

func newPath() *path {
	return &path{changed: make(chan struct{})}
}

func (p *path) set(c Condition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.condition == c {
		return
	}
	p.condition = c
	p.free = time.Time{}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *path) get() (Condition, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.condition, p.changed
}

// awaitOpen blocks until the direction is open. It returns false when done closes
// first.
func (p *path) awaitOpen(done <-chan struct{}) bool {
	for {
		condition, changed := p.get()
		if condition.State == Open {
			return true
		}
		select {
		case <-changed:
		case <-done:
			return false
		}
	}
}

// transmit blocks until TCP has carried a segment that was sent at the given time, and returns
// false when done closes first. recovered is when the connection's last retransmission arrived: it
// also delivers the segments that were sent before. behind counts the segments that were sent
// later. The first of them to arrive reveals the loss, unless the sender has timed out (RFC 8985).
func (p *path) transmit(done <-chan struct{}, sent time.Time, recovered *time.Time, behind func() int) bool {
	if !sent.After(*recovered) {
		return true
	}
	seen := behind()
	timeout := retransmitAfter
	for due := sent.Add(timeout); p.loses(); due = due.Add(timeout) {
		for time.Now().Before(due) {
			select {
			case <-time.After(min(time.Until(due), reactEvery)):
			case <-done:
				return false
			}
			for ; timeout == retransmitAfter && seen < behind(); seen++ {
				if !p.loses() {
					due = time.Now()
				}
			}
		}
		*recovered = due
		timeout *= 2
	}
	return true
}

// loses reports whether a segment is lost now.
func (p *path) loses() bool {
	c, _ := p.get()
	return c.Loss > 0 && rand.Float64() < c.Loss
}

// grant blocks until bytes that arrived at the given time may be delivered, and
// returns how many of n may go now: at least one, fewer than n on a throttled path.
// n of 0 stands for the end of a connection, which waits like a byte. It returns
// false when done closes first.
func (p *path) grant(done <-chan struct{}, arrived time.Time, n int) (int, bool) {
	for {
		granted, wait, changed := p.reserve(arrived, n, time.Now())
		if wait == 0 {
			return granted, true
		}
		var expired <-chan time.Time
		if wait > 0 {
			expired = time.After(wait)
		}
		select {
		case <-expired:
			if granted > 0 {
				return granted, true
			}
		case <-changed:
		case <-done:
			return 0, false
		}
	}
}

// forever is the wait for a path that is not open. Only a change of its condition
// or the end of the connection ends it.
const forever time.Duration = -1

// reserve returns how long to wait from now on, and how many bytes are granted
// after that wait; with 0 bytes, ask again then. A reservation is void once changed
// closes.
func (p *path) reserve(arrived time.Time, n int, now time.Time) (granted int, wait time.Duration, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.condition
	if c.State != Open {
		return 0, forever, p.changed
	}
	if due := arrived.Add(c.Delay); c.Delay > 0 && due.After(now) {
		return 0, due.Sub(now), p.changed
	}
	if c.Rate <= 0 || n == 0 {
		return n, 0, p.changed
	}
	granted = min(n, max(1, int(float64(c.Rate)*slice.Seconds())))
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(granted) / float64(c.Rate) * float64(time.Second)))
	return granted, max(p.free.Sub(now), 1), p.changed
}
