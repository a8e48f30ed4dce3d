package prometheus

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
)

// NewClientCollector returns metrics of a client's present state, read at each collection:
// calls in flight, watches and their lag, leases and the time left, bytes buffered, probes
// and budgets (docs/observing.md). The label "client" is name, of which a registry has one
// each.
//
// It is meant to be beside the [Observer] of the client, which counts what happens.
func NewClientCollector(name string, client introspect.Source) prometheus.Collector {
	return newMetricCollector("client", name, introspect.Every(), func() []observe.Metric {
		return introspect.Metrics(client.Introspect(introspect.Options{Limit: 1}))
	})
}

// NewKVCollector returns the metrics of a *batch.KV, a *cache.Cache, a *cache.Informer or a *leaderelection.Metrics, which are
// "quorate_batch_rpcs_total", "quorate_cache_gets_total" and others (docs/observing.md), read at each
// collection. The label "client" is name, of which a registry has one for each of the kinds.
func NewKVCollector(name string, kv observe.MetricSource) prometheus.Collector {
	return newMetricCollector("client", name, kv.Metrics(), kv.Metrics)
}
