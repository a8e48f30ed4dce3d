package prometheus

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/observe/pools"
	"github.com/quorate/quorate/pool"
	"github.com/quorate/quorate/pool/grpcpool"
)

// NewPoolCollector returns the metrics of a pool of resources, which are "quorate_pool_resources"
// and others (docs/observing.md). The label "pool" is name, which tells the pools of a registry
// apart. stats is the Stats method of the pool; it is called with each collection.
func NewPoolCollector(name string, stats func() pool.Stats) prometheus.Collector {
	return newPoolCollector(name, func() []pools.Metric { return pools.Of(stats()) })
}

// NewConnectionPoolCollector is [NewPoolCollector] for a pool of gRPC connections, whose metrics are
// "quorate_grpcpool_connections" and others.
func NewConnectionPoolCollector(name string, stats func() grpcpool.Stats) prometheus.Collector {
	return newPoolCollector(name, func() []pools.Metric { return pools.OfConnections(stats()) })
}

type poolCollector struct {
	metrics func() []pools.Metric
	descs   map[string]*prometheus.Desc
}

func newPoolCollector(name string, metrics func() []pools.Metric) *poolCollector {
	c := &poolCollector{metrics: metrics, descs: make(map[string]*prometheus.Desc)}
	for _, m := range metrics() {
		var labels []string
		for _, l := range m.Labels {
			labels = append(labels, l.Name)
		}
		c.descs[m.Name] = prometheus.NewDesc(prometheusName(m), m.Description, labels, prometheus.Labels{"pool": name})
	}
	return c
}

// prometheusName returns a name with the suffixes that Prometheus wants.
func prometheusName(m pools.Metric) string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	if m.Unit == "s" {
		name += "_seconds"
	}
	if m.Counter {
		name += "_total"
	}
	return name
}

// Describe implements prometheus.Collector.
func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.metrics() {
		kind := prometheus.GaugeValue
		if m.Counter {
			kind = prometheus.CounterValue
		}
		var values []string
		for _, l := range m.Labels {
			values = append(values, l.Value)
		}
		ch <- prometheus.MustNewConstMetric(c.descs[m.Name], kind, m.Value, values...)
	}
}
