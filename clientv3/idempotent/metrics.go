package idempotent

import (
	"sync/atomic"

	"github.com/quorate/quorate/observe"
)

// counters count the writes of a KV by how they ended.
type counters struct {
	executed, notExecuted, unknown atomic.Int64
	// settled counts executed writes whose answer was lost, leases the leases that were made.
	settled, leases atomic.Int64
}

func (c *counters) ended(r result) {
	switch r.verdict {
	case executed:
		c.executed.Add(1)
		if r.record != nil {
			c.settled.Add(1)
		}
	case notExecuted:
		c.notExecuted.Add(1)
	default:
		c.unknown.Add(1)
	}
}

var _ observe.MetricSource = (*KV)(nil)

// Metrics returns how many writes there were and how they ended, and what is in use, for observe/prometheus,
// observe/otel and other metrics libraries. A write that could not be sent has none.
func (k *KV) Metrics() []observe.Metric {
	c := &k.counters
	writes := func(outcome string, n *atomic.Int64) observe.Metric {
		return observe.Counter("quorate.idempotent.writes", "{write}", "Writes that have ended, by outcome.", float64(n.Load())).By("outcome", outcome)
	}
	return []observe.Metric{
		writes("executed", &c.executed), writes("not executed", &c.notExecuted), writes("unknown", &c.unknown),
		observe.Counter("quorate.idempotent.settled", "{write}", "Executed writes whose answer was lost.", float64(c.settled.Load())),
		observe.Counter("quorate.idempotent.leases", "{lease}", "Leases that were made for lanes: one, and one more for each that was lost.", float64(c.leases.Load())),
		observe.Gauge("quorate.idempotent.lanes", "{lane}", "Lanes in use: writes under way.", float64(len(k.pool.slots))),
		observe.Gauge("quorate.idempotent.lane_limit", "{lane}", "How many lanes can be in use.", float64(cap(k.pool.slots))),
	}
}
