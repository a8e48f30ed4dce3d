package otel

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/quorate/quorate/internal/utf8text"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/pools"
	"github.com/quorate/quorate/pool"
	"github.com/quorate/quorate/pool/grpcpool"
)

// scope is the name of the meter and the tracer, and of this module.
const scope = "github.com/quorate/quorate/observe/otel"

// version returns the version of this module in the program, "(devel)" in a checkout, and "" if the program does not know.
var version = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == scope {
			return m.Version
		}
	}
	return ""
})

func newMeter(provider metric.MeterProvider) metric.Meter {
	return provider.Meter(scope, metric.WithInstrumentationVersion(version()))
}

var (
	// marginBuckets reach from a lease whose renewal comes too late to one of minutes. The
	// usual margin is two thirds of the TTL.
	marginBuckets = []float64{0, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300}

	// gapBuckets reach from a stream that moves to an outage of a minute.
	gapBuckets = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

	// latencyBuckets are those of gRFC A66, and retryBuckets those of gRFC A96.
	latencyBuckets = []float64{
		0, 0.00001, 0.00005, 0.0001, 0.0003, 0.0006, 0.0008, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01, 0.013, 0.016, 0.02,
		0.025, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.4, 0.5, 0.65, 0.8, 1, 2, 5, 10, 20, 50, 100,
	}
	retryBuckets = []float64{1, 2, 3, 4, 5}
)

// instruments are made for each client; the clients of a provider share the metrics behind them.
type instruments struct {
	picks, ejections, readmissions, changes, failovers metric.Int64Counter
	retries, hedges, hedgeWins, unknown                metric.Int64Counter
	watches, leasesLost                                metric.Int64Counter
	updates, resolverErrors                            metric.Int64Counter
	resolved                                           metric.Int64Gauge
	gap, margin                                        metric.Float64Histogram
	calls, retryDelay, attempts                        metric.Float64Histogram
	callRetries, callHedges                            metric.Int64Histogram
	started                                            metric.Int64Counter
	state                                              metric.Int64ObservableUpDownCounter
}

// maker makes instruments, and collects the errors.
type maker struct {
	meter metric.Meter
	errs  []error
}

func newInstruments(meter metric.Meter) (*instruments, error) {
	m := maker{meter: meter}
	i := &instruments{
		picks:          m.counter("quorate.client.picks", "{attempt}", "Attempts of calls and openings of streams that were given the endpoint."),
		ejections:      m.counter("quorate.client.ejections", "{ejection}", "Times that the endpoint was taken out of use."),
		readmissions:   m.counter("quorate.client.readmissions", "{readmission}", "Times that the endpoint was taken back into use."),
		changes:        m.counter("quorate.client.endpoint.state_changes", "{change}", "Times that the endpoint came into the state."),
		failovers:      m.counter("quorate.client.failovers", "{failover}", "Calls and streams that failed at the endpoint and went on at another one."),
		retries:        m.counter("quorate.client.retries", "{retry}", "Attempts that failed and were repeated."),
		hedges:         m.counter("quorate.client.hedges", "{hedge}", "Reads that were sent to a second endpoint."),
		hedgeWins:      m.counter("quorate.client.hedge_wins", "{hedge}", "Reads that the second endpoint answered first."),
		unknown:        m.counter("quorate.client.unknown_outcomes", "{call}", "Writes that failed and may have been executed."),
		watches:        m.counter("quorate.client.watches_resumed", "{watch}", "Watches that continued on another stream."),
		leasesLost:     m.counter("quorate.client.leases_lost", "{lease}", "Leases that were to be kept alive and ended, or may have."),
		updates:        m.counter("quorate.client.resolver.updates", "{update}", "Lists of endpoints that the resolver gave."),
		resolverErrors: m.counter("quorate.client.resolver.errors", "{error}", "Errors that the resolver reported."),
		gap:            m.seconds("quorate.client.watch.gap", "Time from the end of a watch stream until its watches continued on another one.", gapBuckets),
		margin:         m.seconds("quorate.client.lease.margin", "Time that was left to a lease when its renewal arrived; 0 if none was.", marginBuckets),

		// Those that gRFC A66 and A96 define.
		started:     m.counter("grpc.client.attempt.started", "{attempt}", "Attempts of calls and streams that were given an endpoint."),
		calls:       m.seconds("grpc.client.call.duration", "Time from the beginning of a call to its end, with all attempts and pauses.", latencyBuckets),
		retryDelay:  m.seconds("grpc.client.call.retry_delay", "Time between the attempts of a call that was retried.", latencyBuckets),
		attempts:    m.seconds("grpc.client.attempt.duration", "Time that an attempt of a call or a stream took.", latencyBuckets),
		callRetries: m.retryHistogram("grpc.client.call.retries", "{retry}", "Retries of a call that was retried."),
		callHedges:  m.retryHistogram("grpc.client.call.hedges", "{hedge}", "Hedges of a call that was hedged."),
	}
	var err error
	i.resolved, err = meter.Int64Gauge("quorate.client.resolver.endpoints", metric.WithUnit("{endpoint}"),
		metric.WithDescription("Endpoints in the resolver's last list."))
	m.errs = append(m.errs, err)
	i.state, err = meter.Int64ObservableUpDownCounter("quorate.client.endpoint.state", metric.WithUnit("{endpoint}"),
		metric.WithDescription("1 for the state that the endpoint is in, 0 for the others."))
	return i, errors.Join(append(m.errs, err)...)
}

func (m *maker) counter(name, unit, description string) metric.Int64Counter {
	c, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.errs = append(m.errs, err)
	return c
}

func (m *maker) seconds(name, description string, buckets []float64) metric.Float64Histogram {
	h, err := m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(buckets...))
	m.errs = append(m.errs, err)
	return h
}

func (m *maker) retryHistogram(name, unit, description string) metric.Int64Histogram {
	h, err := m.meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(retryBuckets...))
	m.errs = append(m.errs, err)
	return h
}

// tally counts calls without the SDK, whose Add takes longer than the rest of a hook. Each collection adds the count to the
// counter. After end no collection does, and each call adds its own.
type tally struct {
	counter metric.Int64Counter
	options []metric.AddOption

	n     atomic.Int64
	ended atomic.Bool
}

func (t *tally) inc() {
	t.n.Add(1)
	if t.ended.Load() {
		t.flush()
	}
}

func (t *tally) flush() {
	if n := t.n.Swap(0); n > 0 {
		t.counter.Add(context.Background(), n, t.options...)
	}
}

func (t *tally) end() {
	t.ended.Store(true)
	t.flush()
}

func (o *Observer) eachTally(do func(*tally)) {
	o.picked.Range(func(_, p any) bool {
		p.(picks).each(do)
		return true
	})
	o.methods.Range(func(_, m any) bool {
		do(&m.(*methodOptions).started)
		return true
	})
}

// keyFunc returns the attribute key of a label.
type keyFunc func(label string) attribute.Key

func poolKeys(label string) attribute.Key { return attribute.Key("quorate.pool." + label) }

// observeMetrics reports what metrics returns, with the common attributes. every returns at least
// one metric of each name.
func observeMetrics(
	provider metric.MeterProvider, common []attribute.KeyValue, key keyFunc, every, metrics func() []observe.Metric,
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
	return meter.Float64ObservableGauge(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Description))
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

// ObserveSource reports the metrics of a *batch.KV, a *cache.Cache, a *cache.Informer, an *idempotent.KV
// or a *leaderelection.Metrics, such as "quorate.batch.rpcs" and "quorate.cache.gets"
// (docs/observing.md), until Unregister. The attribute "quorate.client.name" is name.
// It returns an error if provider is nil, and otherwise the provider's.
func ObserveSource(provider metric.MeterProvider, name string, source observe.MetricSource) (metric.Registration, error) {
	return observeMetrics(provider, []attribute.KeyValue{clientKey.String(name)}, kvKeys, source.Metrics, source.Metrics)
}

func kvKeys(label string) attribute.Key { return attribute.Key("quorate.kv." + label) }

// ObservePool reports the metrics of a pool of resources, "quorate.pool.resources" and others
// (docs/observing.md), until Unregister. The attribute "quorate.pool.name" is
// name. stats is the Stats method of the pool; it is called with each collection. ObservePool
// returns an error if provider is nil, and otherwise the provider's.
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
