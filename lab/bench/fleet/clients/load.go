package clients

import (
	"sync"
	"time"
)

// load is the deadline with which the client makes gets. It may change
// at any time.
type load struct {
	mu       sync.Mutex
	deadline time.Duration
	changed  chan struct{} // closed when deadline changes
}

func newLoad() *load { return &load{changed: make(chan struct{})} }

// get returns the deadline, 0 when no gets are wanted, and a channel that is closed
// when it changes.
func (l *load) get() (time.Duration, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline, l.changed
}

func (l *load) set(deadline time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if deadline == l.deadline {
		return
	}
	l.deadline = deadline
	close(l.changed)
	l.changed = make(chan struct{})
}
