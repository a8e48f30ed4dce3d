package balancer

import (
	"sync"
	"sync/atomic"
)

// Monitor gives the owner of a ClientConn access to its endpoints. Pass it to the policy
// in [Options]. The zero value is ready to use, for one ClientConn.
type Monitor struct {
	endpoints atomic.Pointer[[]*Endpoint]

	mu       sync.Mutex
	improved chan struct{} // nil while there is no waiter
}

// Endpoints returns the endpoints in the resolver's order. The caller must not modify the
// slice.
func (m *Monitor) Endpoints() []*Endpoint {
	if eps := m.endpoints.Load(); eps != nil {
		return *eps
	}
	return nil
}

// Improved returns a channel that is closed when an endpoint is connected or its state
// improves. Retries that wait for an endpoint wake up on it.
//
// Get the channel before checking the endpoints, so that no improvement is missed.
func (m *Monitor) Improved() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.improved == nil {
		m.improved = make(chan struct{})
	}
	return m.improved
}

// SetEndpoints replaces the endpoints. The policy calls it; tests that stand in for one may.
func (m *Monitor) SetEndpoints(eps []*Endpoint) { m.endpoints.Store(&eps) }

// forget removes the endpoints if they are those of the policy. A policy that was replaced is
// closed after its successor has set its own.
func (m *Monitor) forget(p *policy) {
	if eps := m.endpoints.Load(); eps != nil && len(*eps) > 0 && (*eps)[0].policy == p {
		m.endpoints.CompareAndSwap(eps, nil)
	}
}

// NotifyImproved closes the channels of Improved. The policy calls it; tests that stand in
// for one may.
func (m *Monitor) NotifyImproved() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.improved != nil {
		close(m.improved)
		m.improved = nil
	}
}
