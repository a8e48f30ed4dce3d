package channel

import (
	"github.com/quorate/quorate/observe/introspect"
	"github.com/quorate/quorate/retry"
)

// Inspect fills in the channel's part: endpoints, calls and budgets.
func (c *Channel) Inspect(o introspect.Options, into *introspect.Client) {
	c.inspector.Inspect(c.monitor, o, into)
	into.Calls.InFlight = int(c.running.Load())
	of := func(name string, b *retry.Budget) introspect.Budget {
		left, limit := b.Left()
		return introspect.Budget{Name: name, Left: left, Max: limit}
	}
	into.Budgets = append([]introspect.Budget{
		of("retry", c.budget), of("stream retry", c.streams.budget), of("hedge", c.hedges.Budget),
	}, into.Budgets...)
}
