package otel

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/pools"
	"github.com/quorate/quorate/pool"
	"github.com/quorate/quorate/pool/grpcpool"
)

// ObservePool reports the metrics of a pool of resources, "quorate.pool.resources" and others
// (docs/observing.md), until the registration is ended. The attribute "quorate.pool.name" is
// name. stats is the Stats method of the pool; it is called with each collection. The error says
// that the provider is missing, or is the provider's.
func ObservePool(provider metric.MeterProvider, name string, stats func() pool.Stats) (metric.Registration, error) {
	metrics := func() []observe.Metric { return pools.Of(stats()) }
	return observeMetrics(provider, []attribute.KeyValue{attribute.String("quorate.pool.name", name)}, poolKeys, metrics, metrics)
}

// ObserveConnectionPool is [ObservePool] for a pool of gRPC connections, whose metrics are
// "quorate.grpcpool.connections" and others.
func ObserveConnectionPool(provider metric.MeterProvider, name string, stats func() grpcpool.Stats) (metric.Registration, error) {
	metrics := func() []observe.Metric { return pools.OfConnections(stats()) }
	return observeMetrics(provider, []attribute.KeyValue{attribute.String("quorate.pool.name", name)}, poolKeys, metrics, metrics)
}
