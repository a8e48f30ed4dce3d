package otel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/quorate/quorate/observe/pools"
	"github.com/quorate/quorate/pool"
	"github.com/quorate/quorate/pool/grpcpool"
)

// ObservePool reports the metrics of a pool of resources, "quorate.pool.resources" and others
// (docs/observing.md), until the registration is ended. The attribute "quorate.pool.name" is
// name. stats is the Stats method of the pool; it is called with each collection. The error is
// the provider's.
func ObservePool(provider metric.MeterProvider, name string, stats func() pool.Stats) (metric.Registration, error) {
	return observePool(provider, name, func() []pools.Metric { return pools.Of(stats()) })
}

// ObserveConnectionPool is [ObservePool] for a pool of gRPC connections, whose metrics are
// "quorate.grpcpool.connections" and others.
func ObserveConnectionPool(provider metric.MeterProvider, name string, stats func() grpcpool.Stats) (metric.Registration, error) {
	return observePool(provider, name, func() []pools.Metric { return pools.OfConnections(stats()) })
}

func observePool(provider metric.MeterProvider, name string, metrics func() []pools.Metric) (metric.Registration, error) {
	if provider == nil {
		return nil, errors.New("otel: no meter provider: pass otel.GetMeterProvider() or one of your own")
	}
	meter := provider.Meter(scope)
	instruments := make(map[string]metric.Float64Observable)
	var all []metric.Observable
	for _, m := range metrics() {
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
			attributes := []attribute.KeyValue{attribute.String("quorate.pool.name", name)}
			for _, l := range m.Labels {
				attributes = append(attributes, attribute.String("quorate.pool."+l.Name, l.Value))
			}
			to.ObserveFloat64(instruments[m.Name], m.Value, metric.WithAttributes(attributes...))
		}
		return nil
	}, all...)
}

func newObservable(meter metric.Meter, m pools.Metric) (metric.Float64Observable, error) {
	if m.Counter {
		return meter.Float64ObservableCounter(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Description))
	}
	return meter.Float64ObservableUpDownCounter(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Description))
}
