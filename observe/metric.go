package observe

// Metric is one value of a gauge or a counter. Packages observe/pools and observe/introspect, and each
// [MetricSource], make them for observe/prometheus, observe/otel and other metrics libraries.
type Metric struct {
	// Name has the form of OpenTelemetry, "quorate.pool.waiting", and Unit that of UCUM.
	Name, Unit, Description string
	// Counter is true for a counter, false for a gauge.
	Counter bool
	// Labels distinguish metrics of one name.
	Labels []Label
	Value  float64
}

// Label has a name of one word, such as "state", and a value.
type Label struct{ Name, Value string }

// By returns the metric with another label.
func (m Metric) By(name, value string) Metric {
	m.Labels = append(m.Labels[:len(m.Labels):len(m.Labels)], Label{name, value})
	return m
}

// Gauge returns a metric that rises and falls.
func Gauge(name, unit, description string, value float64) Metric {
	return Metric{Name: name, Unit: unit, Description: description, Value: value}
}

// Counter returns a metric that only rises.
func Counter(name, unit, description string, value float64) Metric {
	return Metric{Name: name, Unit: unit, Description: description, Counter: true, Value: value}
}

// MetricSource has metrics: *batch.KV, *cache.Cache, *cache.Informer, *idempotent.KV and *leaderelection.Metrics. Metrics
// always returns at least one metric of each name.
type MetricSource interface{ Metrics() []Metric }
