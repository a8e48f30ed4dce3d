package otel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/quorate/quorate/internal/utf8text"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/pools"
	"github.com/quorate/quorate/pool"
	"github.com/quorate/quorate/pool/grpcpool"
)

// keys returns the attribute's key for a label.
type keys func(label string) attribute.Key

func poolKeys(label string) attribute.Key { return attribute.Key("quorate.pool." + label) }

// observeMetrics reports what metrics returns, with the common attributes. every returns at least
// one metric of each name.
func observeMetrics(
	provider metric.MeterProvider, common []attribute.KeyValue, key keys, every, metrics func() []observe.Metric,
) (metric.Registration, error) {
	if provider == nil {
		return nil, errors.New("otel: no meter provider: pass otel.GetMeterProvider() or one of your own")
	}
	meter := newMeter(provider)
	instruments := make(map[string]metric.Float64Observable)
	var all []metric.Observable
	for _, m := range every() {
		if instruments[m.Name] != nil {
			continue
		}
		i, err := newObservable(meter, m)
		if err != nil {
			return nil, fmt.Errorf("making the metrics: %w", err)
		}
		instruments[m.Name] = i
		all = append(all, i)
	}
	return meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for _, m := range metrics() {
			attributes := slices.Clone(common)
			for _, l := range m.Labels {
				attributes = append(attributes, key(l.Name).String(l.Value))
			}
			to.ObserveFloat64(instruments[m.Name], m.Value, metric.WithAttributes(utf8Only(attributes)...))
		}
		return nil
	}, all...)
}

func newObservable(meter metric.Meter, m observe.Metric) (metric.Float64Observable, error) {
	if m.Counter {
		return meter.Float64ObservableCounter(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Description))
	}
	return meter.Float64ObservableUpDownCounter(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Description))
}

// utf8Only quotes in place the texts of attributes that are not UTF-8: an exporter sends nothing that has one.
func utf8Only(attributes []attribute.KeyValue) []attribute.KeyValue {
	for i, a := range attributes {
		if a.Value.Type() == attribute.STRING {
			attributes[i].Value = attribute.StringValue(utf8text.Of(a.Value.AsString()))
		}
	}
	return attributes
}

// ObserveKV reports the metrics of a *batch.KV, a *cache.Cache, a *cache.Informer, an *idempotent.KV
// or a *leaderelection.Metrics, such as "quorate.batch.rpcs" and "quorate.cache.gets"
// (docs/observing.md), until the registration is ended. The attribute "quorate.client.name" is name.
// The error says that the provider is missing, or is the provider's.
func ObserveKV(provider metric.MeterProvider, name string, kv observe.MetricSource) (metric.Registration, error) {
	return observeMetrics(provider, []attribute.KeyValue{clientKey.String(name)}, kvKeys, kv.Metrics, kv.Metrics)
}

func kvKeys(label string) attribute.Key { return attribute.Key("quorate.kv." + label) }

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
