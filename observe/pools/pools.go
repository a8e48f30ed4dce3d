// Package pools turns the statistics of pools into metrics, for observe/prometheus, observe/otel
// and custom metrics libraries.
package pools

import (
	"strings"

	"google.golang.org/grpc/connectivity"

	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/pool"
	"github.com/quorate/quorate/pool/grpcpool"
)

// Of returns the metrics of a pool of resources.
func Of(s pool.Stats) []observe.Metric {
	resources := func(state string, n int) observe.Metric {
		return observe.Gauge("quorate.pool.resources", "{resource}", "Resources of the pool, by state.", float64(n)).By("state", state)
	}
	destroyed := func(reason string, n uint64) observe.Metric {
		return observe.Counter("quorate.pool.destroyed", "{resource}", "Resources that were destroyed, by reason.", float64(n)).By("reason", reason)
	}
	return []observe.Metric{
		resources("idle", s.Idle),
		resources("borrowed", s.Borrowed),
		resources("creating", s.Creating),
		resources("destroying", s.Destroying),
		observe.Gauge("quorate.pool.waiting", "{call}", "Calls that wait for a resource.", float64(s.Waiting)),
		observe.Counter("quorate.pool.acquired", "{call}", "Calls that asked for a resource.", float64(s.Acquired)),
		observe.Counter("quorate.pool.waited", "{call}", "Calls that had to wait for a resource.", float64(s.Waited)),
		observe.Counter("quorate.pool.wait_time", "s", "Time that calls waited for a resource.", s.WaitTime.Seconds()),
		observe.Counter("quorate.pool.canceled", "{call}", "Calls whose context ended while they waited.", float64(s.Canceled)),
		observe.Counter("quorate.pool.full", "{call}", "Calls that were refused because the pool was full.", float64(s.Full)),
		observe.Counter("quorate.pool.created", "{resource}", "Resources that were created.", float64(s.Created)),
		observe.Counter("quorate.pool.create_errors", "{error}", "Resources that could not be created.", float64(s.CreateErrors)),
		observe.Counter("quorate.pool.hijacked", "{resource}", "Resources that were taken out of the pool.", float64(s.Hijacked)),
		destroyed("check_failed", s.Destroyed.CheckFailed),
		destroyed("too_old", s.Destroyed.TooOld),
		destroyed("idle_too_long", s.Destroyed.IdleTooLong),
		destroyed("too_many_idle", s.Destroyed.TooManyIdle),
		destroyed("overflowed", s.Destroyed.Overflowed),
		destroyed("discarded", s.Destroyed.Discarded),
		destroyed("pool_reset", s.Destroyed.PoolReset),
		destroyed("pool_closed", s.Destroyed.PoolClosed),
	}
}

// OfConnections returns the metrics of a pool of gRPC connections.
func OfConnections(s grpcpool.Stats) []observe.Metric {
	var all []observe.Metric
	for _, c := range []struct {
		class string
		grpcpool.ClassStats
	}{{"unary", s.Unary}, {"bulk", s.Bulk}, {"streams", s.Streams}} {
		byState := make(map[connectivity.State]int)
		for _, conn := range c.Connections {
			byState[conn.State]++
		}
		for state := connectivity.Idle; state < connectivity.Shutdown; state++ {
			name := strings.ToLower(state.String())
			all = append(all, observe.Gauge("quorate.grpcpool.connections", "{connection}", "Connections of the class, by their state.",
				float64(byState[state])).
				By("class", c.class).By("state", name))
		}
		for _, m := range []observe.Metric{
			observe.Gauge("quorate.grpcpool.in_flight", "{call}", "Calls and streams under way.", float64(c.InFlight)),
			observe.Gauge("quorate.grpcpool.waiting", "{call}", "Calls that wait for a stream.", float64(c.Waiting)),
			observe.Counter("quorate.grpcpool.calls", "{call}", "Calls and streams.", float64(c.Calls)),
			observe.Counter("quorate.grpcpool.waited", "{call}", "Calls that had to wait for a stream.", float64(c.Waited)),
			observe.Counter("quorate.grpcpool.wait_time", "s", "Time that calls waited for a stream.", c.WaitTime.Seconds()),
			observe.Counter("quorate.grpcpool.opened", "{connection}", "Connections that were opened.", float64(c.Opened)),
			observe.Counter("quorate.grpcpool.closed", "{connection}", "Connections that were closed.", float64(c.Closed)),
		} {
			all = append(all, m.By("class", c.class))
		}
	}
	return all
}
