package otel

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/quorate/quorate/observe"
)

// ObserveKV reports the metrics of a *batch.KV, a *cache.Cache, a *cache.Informer, an *idempotent.KV
// or a *leaderelection.Metrics, such as "quorate.batch.rpcs" and "quorate.cache.gets"
// (docs/observing.md), until the registration is ended. The attribute "quorate.client.name" is name.
// The error says that the provider is missing, or is the provider's.
func ObserveKV(provider metric.MeterProvider, name string, kv observe.MetricSource) (metric.Registration, error) {
	return observeMetrics(provider, []attribute.KeyValue{clientKey.String(name)}, kvKeys, kv.Metrics, kv.Metrics)
}

func kvKeys(label string) attribute.Key { return attribute.Key("quorate.kv." + label) }
