package balancer_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

// events records the events of the policy.
type events struct {
	mu      sync.Mutex
	changes []change
	closed  []string // addresses
	reasons []error
}

type change struct {
	health.Change
	at time.Time
}

func (*events) Picked(*balancer.Endpoint, balancer.Call) {}

func (*events) Ended(*balancer.Endpoint, balancer.Call, time.Duration, error) {}

func (e *events) Changed(_ *balancer.Endpoint, c health.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes = append(e.changes, change{c, time.Now()})
}

func (e *events) Closed(ep *balancer.Endpoint, reason error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed, e.reasons = append(e.closed, ep.Address()), append(e.reasons, reason)
}

// log logs the events for a failed test.
func (e *events) log(t *testing.T, began time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.changes) == 0 {
		return
	}
	for _, c := range e.changes {
		t.Log(c.at.Sub(began), c.Endpoint, c.From, "→", c.To, c.Evidence)
	}
	t.Log("closed:", e.reasons, "after", time.Since(began))
}

// reached returns the times at which a server entered a state, in order.
func (e *events) reached(s *server, state health.State) (at []time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.changes {
		if c.Endpoint == s.addr && c.To == state {
			at = append(at, c.at)
		}
	}
	return at
}

// ever reports whether any server was ever in one of the states.
func (e *events) ever(states ...health.State) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.changes, func(c change) bool { return slices.Contains(states, c.To) })
}

func (e *events) closedAddresses() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.closed)
}
