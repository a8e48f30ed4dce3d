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
		return gauge("quorate.pool.resources", "{resource}", "Resources of the pool, by state.", n).By("state", state)
	}
	destroyed := func(reason string, n uint64) observe.Metric {
		return counter("quorate.pool.destroyed", "{resource}", "Resources that were destroyed, by reason.", float64(n)).By("reason", reason)
	}
	return []observe.Metric{
		resources("idle", s.Idle),
		resources("borrowed", s.Borrowed),
		resources("creating", s.Creating),
		resources("destroying", s.Destroying),
		gauge("quorate.pool.waiting", "{call}", "Calls that wait for a resource.", s.Waiting),
		counter("quorate.pool.acquired", "{call}", "Calls that asked for a resource.", float64(s.Acquired)),
		counter("quorate.pool.waited", "{call}", "Calls that had to wait for a resource.", float64(s.Waited)),
		counter("quorate.pool.wait_time", "s", "Time that calls waited for a resource.", s.WaitTime.Seconds()),
		counter("quorate.pool.canceled", "{call}", "Calls whose context ended while they waited.", float64(s.Canceled)),
		counter("quorate.pool.full", "{call}", "Calls that were refused because the pool was full.", float64(s.Full)),
		counter("quorate.pool.created", "{resource}", "Resources that were created.", float64(s.Created)),
		counter("quorate.pool.create_errors", "{error}", "Resources that could not be created.", float64(s.CreateErrors)),
		counter("quorate.pool.hijacked", "{resource}", "Resources that were taken out of the pool.", float64(s.Hijacked)),
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
			all = append(all, gauge("quorate.grpcpool.connections", "{connection}", "Connections of the class, by their state.", byState[state]).
				By("class", c.class).By("state", name))
		}
		for _, m := range []observe.Metric{
			gauge("quorate.grpcpool.in_flight", "{call}", "Calls and streams under way.", c.InFlight),
			gauge("quorate.grpcpool.waiting", "{call}", "Calls that wait for a stream.", c.Waiting),
			counter("quorate.grpcpool.calls", "{call}", "Calls and streams.", float64(c.Calls)),
			counter("quorate.grpcpool.waited", "{call}", "Calls that had to wait for a stream.", float64(c.Waited)),
			counter("quorate.grpcpool.wait_time", "s", "Time that calls waited for a stream.", c.WaitTime.Seconds()),
			counter("quorate.grpcpool.opened", "{connection}", "Connections that were opened.", float64(c.Opened)),
			counter("quorate.grpcpool.closed", "{connection}", "Connections that were closed.", float64(c.Closed)),
		} {
			all = append(all, m.By("class", c.class))
		}
	}
	return all
}

func gauge(name, unit, description string, value int) observe.Metric {
	return observe.Metric{Name: name, Unit: unit, Description: description, Value: float64(value)}
}

func counter(name, unit, description string, value float64) observe.Metric {
	return observe.Metric{Name: name, Unit: unit, Description: description, Counter: true, Value: value}
}
