package scenario

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/lab/check"
	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/report"
)

// maxRefuted bounds the refuted claims that are kept with their evidence; the others
// are only counted.
const maxRefuted = 10

// claims compares what the client claims of its leases with what their keepers find. The
// zero value is ready to use.
type claims struct {
	mu         sync.Mutex
	looks      int64
	refuted    int
	violations []check.Violation
}

func (c *claims) evaluate(look history.LeaseLook) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	if !look.Refutes() {
		return
	}
	c.refuted++
	if c.refuted > maxRefuted {
		return
	}
	c.violations = append(c.violations, check.Violation{
		Promise: report.LeaseEndedEarly,
		Message: fmt.Sprintf("lease %x had ended by %s, and the client claimed it to live until %s",
			look.Lease, at(look.Answered), at(look.Claim.Until)),
		Evidence: []string{
			fmt.Sprintf("claimed at %s to live until %s", at(look.Claim.At), at(look.Claim.Until)),
			fmt.Sprintf("linearizable get of %s, from %s to %s: revision %d, found nothing",
				look.Key, at(look.Asked), at(look.Answered), look.Revision),
		},
	})
}

// checked returns how many looks there were.
func (c *claims) checked() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks
}

// addTo returns the verdict with what is wrong with the leases.
func (c *claims) addTo(v check.Verdict) check.Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuted == 0 {
		return v
	}
	v.Violations = append(slices.Clone(v.Violations), c.violations...)
	v.Counts = maps.Clone(v.Counts)
	v.Count(report.LeaseEndedEarly, c.refuted)
	return v
}

func at(d time.Duration) string { return fmt.Sprintf("%.6fs", d.Seconds()) }

// verdict returns what is known to be wrong with the calls and the leases.
func (r *run) verdict() check.Verdict { return r.claims.addTo(r.checker.Verdict()) }

// Lease implements [load.Recorder].
func (r *run) Lease(e history.LeaseEvent) { r.meter.Lease(e) }

// Look implements [load.Recorder].
func (r *run) Look(look history.LeaseLook) { r.claims.evaluate(look) }
