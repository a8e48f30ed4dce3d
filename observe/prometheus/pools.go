package prometheus

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/pools"
	"github.com/quorate/quorate/pool"
	"github.com/quorate/quorate/pool/grpcpool"
)

// NewPoolCollector returns the metrics of a pool of resources, which are "quorate_pool_resources"
// and others (docs/observing.md). The label "pool" is name, which tells the pools of a registry
// apart. stats is the Stats method of the pool; it is called with each collection.
func NewPoolCollector(name string, stats func() pool.Stats) prometheus.Collector {
	metrics := func() []observe.Metric { return pools.Of(stats()) }
	return newMetricCollector("pool", name, metrics)
}

// NewConnectionPoolCollector is [NewPoolCollector] for a pool of gRPC connections, whose metrics are
// "quorate_grpcpool_connections" and others.
func NewConnectionPoolCollector(name string, stats func() grpcpool.Stats) prometheus.Collector {
	metrics := func() []observe.Metric { return pools.OfConnections(stats()) }
	return newMetricCollector("pool", name, metrics)
}
