package prometheus

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/utf8text"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
	"github.com/quorate/quorate/observe/pools"
	"github.com/quorate/quorate/pool"
	"github.com/quorate/quorate/pool/grpcpool"
)

// collector is what a registry has of this package: one for all clients.
type collector struct {
	metrics

	mu        sync.Mutex
	observers map[*Observer]struct{} // that have endpoints, or are new
	attached  map[string]*attached   // by the label "client"
}

// attached are clients and channels of one name.
type attached struct {
	introspect.Channels
	n int
}

// register returns the collector of a registry, which is made with the first client.
func register(reg prometheus.Registerer) (*collector, error) {
	c := &collector{
		metrics: newMetrics(), observers: make(map[*Observer]struct{}), attached: make(map[string]*attached),
	}
	err := reg.Register(c)
	var known prometheus.AlreadyRegisteredError
	switch {
	case err == nil:
		return c, nil
	case !errors.As(err, &known):
		return nil, fmt.Errorf("registering the metrics: %w", err)
	}
	if c, ok := known.ExistingCollector.(*collector); ok {
		return c, nil
	}
	return nil, fmt.Errorf("registering the metrics: the registry has others of the same names: %w", err)
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.state
	c.present.describe(ch)
	c.vectors.Describe(ch)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	c.vectors.Collect(ch)
	c.mu.Lock()
	open := maps.Clone(c.attached)
	c.mu.Unlock()
	for client, channels := range open {
		c.present.collect(ch, channels.Metrics(), client) // without the lock: it takes those of the clients
	}
	for ep, states := range c.states() {
		for state, clients := range states {
			ch <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, float64(clients), ep.client, ep.endpoint, health.State(state).String())
		}
	}
}

// attach adds a client, or a channel, until detach is called.
func (c *collector) attach(client string, source introspect.Source) (detach func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.attached[client]
	if all == nil {
		all = new(attached)
		c.attached[client] = all
	}
	all.n++
	remove := all.Add(source)
	return sync.OnceFunc(func() {
		remove() // without the lock: it takes those of the client
		c.mu.Lock()
		defer c.mu.Unlock()
		if all.n--; all.n == 0 {
			delete(c.attached, client)
		}
	})
}

// clientEndpoint is an endpoint of the clients of one name.
type clientEndpoint struct{ client, endpoint string }

// states counts the clients that hold each endpoint to be in each state.
func (c *collector) states() map[clientEndpoint][health.Dead + 1]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[clientEndpoint][health.Dead + 1]int)
	for o := range c.observers {
		for endpoint, state := range o.current() {
			ep := clientEndpoint{o.client, utf8text.Of(endpoint)}
			clients := all[ep]
			clients[state]++
			all[ep] = clients
		}
	}
	return all
}

func (c *collector) add(o *Observer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observers[o] = struct{}{}
}

// remove drops an observer, until it has endpoints again, but not what was counted by it. The gauges of the resolver are
// dropped unless other clients of the name have endpoints.
func (c *collector) remove(o *Observer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.observers, o)
	if !c.anyLocked(o.client, func(other *Observer) bool { return len(other.current()) > 0 }) {
		c.resolved.DeleteLabelValues(o.client)
		c.lastUpdate.DeleteLabelValues(o.client)
	}
}

// anyLocked reports whether holds is true for a client of a name. It looks no further than the first.
func (c *collector) anyLocked(client string, holds func(*Observer) bool) bool {
	for o := range c.observers {
		if o.client == client && holds(o) {
			return true
		}
	}
	return false
}

// forget drops what was counted for endpoints, unless other clients of the name have them. Each series is deleted by its
// labels: to find those of an endpoint, Prometheus would look at the series of all.
func (c *collector) forget(client string, endpoints []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	endpoints = slices.DeleteFunc(endpoints, func(ep string) bool {
		return c.anyLocked(client, func(o *Observer) bool { return o.holds(ep) })
	})
	labels := append(make([]string, 0, 3), client)
	for vec, every := range c.byEndpoint() {
		for _, ep := range endpoints {
			for _, values := range every {
				vec.DeleteLabelValues(append(append(labels, utf8text.Of(ep)), values...)...)
			}
		}
	}
}

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

// NewSourceCollector returns the metrics of a *batch.KV, a *cache.Cache, a *cache.Informer, an *idempotent.KV
// or a *leaderelection.Metrics, which are "quorate_batch_rpcs_total", "quorate_cache_gets_total" and
// others (docs/observing.md), read at each collection. The label "client" is name; a registry refuses
// a second collector of the same type and name.
func NewSourceCollector(name string, source observe.MetricSource) prometheus.Collector {
	return newMetricCollector("client", name, source.Metrics)
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
