package prometheus

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/observe"
)

// NewKVCollector returns the metrics of a *batch.KV, a *cache.Cache, a *cache.Informer, an *idempotent.KV
// or a *leaderelection.Metrics, which are "quorate_batch_rpcs_total", "quorate_cache_gets_total" and
// others (docs/observing.md), read at each collection. The label "client" is name; a registry refuses
// a second collector of the same type and name.
func NewKVCollector(name string, kv observe.MetricSource) prometheus.Collector {
	return newMetricCollector("client", name, kv.Metrics)
}
