package balancer

import (
	"sync"
	"sync/atomic"
)

// Monitor shows the endpoints of a ClientConn to its owner, who gives it to the policy in
// [Options]. The zero value is ready for use. It serves one ClientConn.
type Monitor struct {
	endpoints atomic.Pointer[[]*Endpoint]
	improved  broadcaster
}

// Endpoints returns the endpoints, in the order in which the resolver gave them. The slice
// must not be changed.
func (m *Monitor) Endpoints() []*Endpoint {
	if eps := m.endpoints.Load(); eps != nil {
		return *eps
	}
	return nil
}

// Improved returns a channel that is closed when some endpoint can do more than before: it
// was connected to, or its state improved. Retries that wait for an endpoint wake up on it.
//
// Ask for the channel first and look for an endpoint then; the other way round an
// improvement in between is missed.
func (m *Monitor) Improved() <-chan struct{} { return m.improved.next() }

// SetEndpoints replaces the endpoints. The policy calls it; tests that stand in for one may.
func (m *Monitor) SetEndpoints(eps []*Endpoint) { m.endpoints.Store(&eps) }

// NotifyImproved closes the channels of Improved. The policy calls it; tests that stand in
// for one may.
func (m *Monitor) NotifyImproved() { m.improved.notify() }

// broadcaster hands out channels, and closes those that it handed out.
type broadcaster struct {
	mu sync.Mutex
	ch chan struct{} // nil while nobody asked
}

func (b *broadcaster) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcaster) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
