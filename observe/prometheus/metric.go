package prometheus

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/internal/utf8text"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/pools"
	"github.com/quorate/quorate/pool"
	"github.com/quorate/quorate/pool/grpcpool"
)

// metricCollector collects metrics measured elsewhere.
type metricCollector struct {
	metrics func() []observe.Metric
	descs   descs
}

// newMetricCollector returns a collector of what metrics returns, the same metrics each time. All get
// one more label, with the same value.
func newMetricCollector(label, value string, metrics func() []observe.Metric) *metricCollector {
	return &metricCollector{metrics: metrics, descs: newDescs(metrics(), prometheus.Labels{label: utf8text.Of(value)})}
}

// descs are the descriptions of metrics, by their names.
type descs map[string]*prometheus.Desc

// newDescs describes metrics with constant labels, and with the variable labels others before their own.
func newDescs(every []observe.Metric, constant prometheus.Labels, others ...string) descs {
	all := make(descs)
	for _, m := range every {
		labels := slices.Clone(others)
		for _, l := range m.Labels {
			labels = append(labels, l.Name)
		}
		all[m.Name] = prometheus.NewDesc(prometheusName(m), m.Description, labels, constant)
	}
	return all
}

// prometheusName returns a name with the suffixes that Prometheus wants.
func prometheusName(m observe.Metric) string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	switch m.Unit {
	case "s":
		name += "_seconds"
	case "By":
		name += "_bytes"
	}
	if m.Counter {
		name += "_total"
	}
	return name
}

// Describe implements prometheus.Collector.
func (c *metricCollector) Describe(ch chan<- *prometheus.Desc) { c.descs.describe(ch) }

// Collect implements prometheus.Collector.
func (c *metricCollector) Collect(ch chan<- prometheus.Metric) { c.descs.collect(ch, c.metrics()) }

func (d descs) describe(ch chan<- *prometheus.Desc) {
	for _, desc := range d {
		ch <- desc
	}
}

// collect sends metrics, with the values of the other labels.
func (d descs) collect(ch chan<- prometheus.Metric, metrics []observe.Metric, others ...string) {
	for _, m := range metrics {
		kind := prometheus.GaugeValue
		if m.Counter {
			kind = prometheus.CounterValue
		}
		values := slices.Clone(others)
		for _, l := range m.Labels {
			values = append(values, utf8text.Of(l.Value))
		}
		ch <- prometheus.MustNewConstMetric(d[m.Name], kind, m.Value, values...)
	}
}

// NewKVCollector returns the metrics of a *batch.KV, a *cache.Cache, a *cache.Informer, an *idempotent.KV
// or a *leaderelection.Metrics, which are "quorate_batch_rpcs_total", "quorate_cache_gets_total" and
// others (docs/observing.md), read at each collection. The label "client" is name; a registry refuses
// a second collector of the same type and name.
func NewKVCollector(name string, kv observe.MetricSource) prometheus.Collector {
	return newMetricCollector("client", name, kv.Metrics)
}

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
