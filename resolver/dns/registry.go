package dns

import (
	"sync"
	"time"
)

// registry has a poller for each question that a channel wants answered.
type registry struct {
	cfg Config

	mu      sync.Mutex
	pollers map[question]*poller
	// rested has answers of pollers that nobody needs at the moment. A channel that goes
	// idle and wakes up finds its own here, and causes no lookup more often than Interval.
	rested map[question]*rest
}

func newRegistry(cfg Config) *registry {
	return &registry{cfg: cfg, pollers: map[question]*poller{}, rested: map[question]*rest{}}
}

// acquire returns the poller of q, which release has to be called for.
func (r *registry) acquire(q question) *poller {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep()
	p := r.pollers[q]
	if p == nil {
		p = startPoller(r.cfg, q, r.rested[q])
		r.pollers[q] = p
		delete(r.rested, q)
	}
	p.users++
	return p
}

// release ends p if nobody else uses it.
func (r *registry) release(p *poller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.users--; p.users > 0 {
		return
	}
	delete(r.pollers, p.q)
	if known := p.stop(); known != nil {
		r.rested[p.q] = known
	}
	r.sweep()
}

// sweep forgets answers that are due for a new lookup.
func (r *registry) sweep() {
	now := time.Now()
	for q, known := range r.rested {
		if !known.due.After(now) {
			delete(r.rested, q)
		}
	}
}
