package measure

import (
	"maps"
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
)

// LeaseStats holds the figures of all leases in one row.
type LeaseStats struct {
	// Kept counts the leases that were held in the row and did not expire in it.
	Kept int64 `json:"kept"`
	// Expired counts the leases that their keepers lost.
	Expired int64 `json:"expired"`
	// Renewals counts the keepalives that were answered.
	Renewals int64 `json:"renewals"`
	// SmallestMargin is the least time that was left of a lease when it was renewed,
	// see [history.LeaseEvent]; 0 if none was left, or a lease expired. It means
	// nothing without Renewals.
	SmallestMargin time.Duration `json:"smallest_margin_ms"`
	// Failures counts the attempts of keepers without a lease that came to nothing.
	Failures int64 `json:"failures"`
	// Codes counts the expired leases and the failures by their codes.
	Codes map[string]int64 `json:"error_codes"`
}

// leaseTally has the figures of the leases in one row.
type leaseTally struct {
	stats LeaseStats
	held  int64 // leases that were held at some time in the row
}

// Lease records what happened to a lease. What happened outside every row is
// ignored, but for the number of leases that are held.
func (m *Meter) Lease(e history.LeaseEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e.Kind {
	case history.LeaseGranted:
		m.leases++
	case history.LeaseExpired:
		m.leases--
	default:
	}
	if r := m.current(); r != nil {
		r.leases.count(e)
		m.sample("lease "+e.Code, e.Err)
	}
}

func (t *leaseTally) count(e history.LeaseEvent) {
	s := &t.stats
	switch e.Kind {
	case history.LeaseGranted:
		t.held++
	case history.LeaseRenewed:
		margin := max(e.Margin, 0)
		if s.Renewals == 0 && s.Expired == 0 {
			s.SmallestMargin = margin
		}
		s.SmallestMargin = min(s.SmallestMargin, margin)
		s.Renewals++
	case history.LeaseExpired:
		s.SmallestMargin = 0
		s.Expired++
		increment(&s.Codes, e.Code)
	case history.LeaseFailed:
		s.Failures++
		increment(&s.Codes, e.Code)
	}
}

func (t *leaseTally) snapshot() LeaseStats {
	s := t.stats
	s.Kept = t.held - s.Expired
	s.Codes = maps.Clone(s.Codes)
	return s
}
