package prometheus

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/observe"
)

// metricCollector collects metrics measured elsewhere.
type metricCollector struct {
	metrics func() []observe.Metric
	descs   map[string]*prometheus.Desc
}

// newMetricCollector returns the collector of what metrics returns, which is some of every. The
// metrics have a label, with the same value for all.
func newMetricCollector(label, value string, every []observe.Metric, metrics func() []observe.Metric) *metricCollector {
	c := &metricCollector{metrics: metrics, descs: make(map[string]*prometheus.Desc)}
	for _, m := range every {
		labels := make([]string, 0, len(m.Labels))
		for _, l := range m.Labels {
			labels = append(labels, l.Name)
		}
		c.descs[m.Name] = prometheus.NewDesc(prometheusName(m), m.Description, labels, prometheus.Labels{label: value})
	}
	return c
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
func (c *metricCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *metricCollector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.metrics() {
		kind := prometheus.GaugeValue
		if m.Counter {
			kind = prometheus.CounterValue
		}
		values := make([]string, 0, len(m.Labels))
		for _, l := range m.Labels {
			values = append(values, l.Value)
		}
		ch <- prometheus.MustNewConstMetric(c.descs[m.Name], kind, m.Value, values...)
	}
}
