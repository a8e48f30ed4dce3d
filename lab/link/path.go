package link

import (
	"math/rand/v2"
	"sync"
	"time"
)

// retransmitAfter is TCP's least retransmission timeout on Linux.
const retransmitAfter = 200 * time.Millisecond

// path is one direction of a link, shared by its connections.
type path struct {
	mu        sync.Mutex
	condition Condition
	changed   chan struct{} // closed and replaced when condition changes
}

func newPath() *path { return &path{changed: make(chan struct{})} }

func (p *path) update(change func(*Condition)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.condition)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *path) get() Condition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.condition
}

// arrival returns when a segment that is sent now reaches the other end, as far as losses decide.
func (p *path) arrival() time.Time {
	at, loss := time.Now(), p.get().Loss
	for timeout := retransmitAfter; rand.Float64() < loss; timeout *= 2 {
		at = at.Add(timeout)
	}
	return at
}

// await blocks until what arrived at the given time may be delivered: a chunk, or the beginning or the end of a connection.
// It returns false when done closes first.
func (p *path) await(done <-chan struct{}, arrived time.Time) bool {
	for {
		p.mu.Lock()
		c, changed := p.condition, p.changed
		p.mu.Unlock()
		var due <-chan time.Time // never while it is blackholed
		if !c.Blackholed {
			wait := time.Until(arrived.Add(c.Delay))
			if wait <= 0 {
				return true
			}
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-changed:
		case <-done:
			return false
		}
	}
}
