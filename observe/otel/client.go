package otel

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
)

// ObserveClient reports a client's present state at each collection, until the registration is
// ended: calls in flight, watches and their lag, leases and the time left, bytes buffered,
// probes and budgets (docs/observing.md). The attribute "quorate.client.name" is name, which
// should be the client's own. The error is the provider's.
//
// It is meant to be beside the [Observer] of the client, which counts what happens.
func ObserveClient(provider metric.MeterProvider, name string, client introspect.Source) (metric.Registration, error) {
	return observeMetrics(provider, clientKey.String(name), clientKeys, introspect.Every, func() []observe.Metric {
		return introspect.Metrics(client.Introspect(introspect.Options{Limit: 1}))
	})
}

// ObserveKV reports the metrics of a *batch.KV, a *cache.Cache, a *cache.Informer or a *leaderelection.Metrics, which are
// "quorate.batch.rpcs", "quorate.cache.gets" and others (docs/observing.md), until the
// registration is ended. The attribute "quorate.client.name" is name. The error is the provider's.
func ObserveKV(provider metric.MeterProvider, name string, kv observe.MetricSource) (metric.Registration, error) {
	return observeMetrics(provider, clientKey.String(name), kvKeys, kv.Metrics, kv.Metrics)
}

func kvKeys(label string) attribute.Key { return attribute.Key("quorate.kv." + label) }

func clientKeys(label string) attribute.Key {
	switch label {
	case "endpoint":
		return endpointKey
	case "state":
		return "quorate.watch.state"
	default:
		return attribute.Key("quorate." + label + ".name")
	}
}
