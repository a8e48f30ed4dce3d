package scenario

import (
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/report"
)

// claims compares what the client claims of its leases with what their keepers find. The
// zero value is ready to use.
type claims struct {
	mu      sync.Mutex
	looks   int64
	verdict tally.Verdict
}

func (c *claims) evaluate(look history.LeaseLook) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	if !look.Refutes() {
		return
	}
	violation := c.verdict.Add(report.LeaseEndedEarly, "lease %x had ended by %s, and the client claimed it to live until %s",
		look.Lease, at(look.Answered), at(look.Claim.Until))
	if violation != nil {
		violation.Evidence = []string{
			fmt.Sprintf("claimed at %s to live until %s", at(look.Claim.At), at(look.Claim.Until)),
			fmt.Sprintf("linearizable get of %s, from %s to %s: revision %d, found nothing",
				look.Key, at(look.Asked), at(look.Answered), look.Revision),
		}
	}
}

// found returns how many looks there were, and what was wrong.
func (c *claims) found() (looks int64, verdict tally.Verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	verdict.Merge(c.verdict)
	return c.looks, verdict
}

func at(d time.Duration) string { return fmt.Sprintf("%.6fs", d.Seconds()) }

// Lease implements [load.Recorder].
func (r *run) Lease(e history.LeaseEvent) { r.meter.Lease(e) }

// Look implements [load.Recorder].
func (r *run) Look(look history.LeaseLook) { r.claims.evaluate(look) }
