package balancer

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// probeRate is the number of probes per second that a client may send without any
	// calls.
	probeRate = 0.25
	// probeShare is the number of probes that each call adds to the budget.
	probeShare = 0.02
	// probeBurst is enough to detect two faults.
	probeBurst = 10
	// probeReserve is kept for rounds in which a verdict is possible. Rounds that first
	// search for a witness use the rest.
	probeReserve = 4
	// localOverdraft is how many checks for local reads that wait may be borrowed: two frozen
	// endpoints and a witness of each, when none answers service probes.
	localOverdraft = 4
	// faultReserve is kept for the next fault, its search for a witness included, by the rounds
	// of a fault that has lasted, and by the checks of streams.
	faultReserve = probeReserve + 2
	// outageProbes is how many are left when an outage of all ends. All clients return together, and calls show
	// which endpoints serve.
	outageProbes = 2
)

// budget bounds the probes of a client: a constant rate, and a share of its calls.
type budget struct {
	calls atomic.Int64 // that have ended since tokens was computed

	mu     sync.Mutex
	tokens float64
	at     time.Time // when tokens was computed; zero before the first probe
}

// take takes a probe from the budget. It returns false, and takes none, if less than the
// reserve would remain.
func (b *budget) take(now time.Time, reserve float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.earnLocked(now)
	if b.tokens < 1+reserve {
		return false
	}
	b.tokens--
	return true
}

// level returns how many probes may be sent now.
func (b *budget) level(now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.earnLocked(now)
	return b.tokens
}

// earnLocked adds what was earned since then, and the burst at first.
func (b *budget) earnLocked(now time.Time) {
	earned := probeShare * float64(b.calls.Swap(0))
	if b.at.IsZero() {
		earned = probeBurst
	} else {
		earned += max(now.Sub(b.at).Seconds(), 0) * probeRate
	}
	b.tokens, b.at = min(b.tokens+earned, probeBurst), now
}

// keep discards what exceeds n probes: what was saved for a fault of one endpoint.
func (b *budget) keep(n float64, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.earnLocked(now)
	b.tokens = min(b.tokens, n)
}
