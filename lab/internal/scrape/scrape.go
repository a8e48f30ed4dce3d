// Package scrape reads the metrics of servers, in the Prometheus text format.
package scrape

import (
	"context"
	"fmt"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/quorate/quorate/internal/fatal"
)

// timeout bounds the reading of a server's metrics.
const timeout = 20 * time.Second

// Metrics are the families of a server by name.
type Metrics map[string]*dto.MetricFamily

// Client keeps no connections, so that servers can restart.
var Client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Read reads the metrics of the server at a URL. An error ends it, see package fatal.
func Read(ctx context.Context, client *http.Client, url string) Metrics {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response := fatal.OK(client.Do(fatal.OK(http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody))))
	defer func() { _ = response.Body.Close() }() // all that matters has been read
	if response.StatusCode != http.StatusOK {
		fatal.If(fmt.Errorf("%s/metrics: %s", url, response.Status))
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return fatal.OK(parser.TextToMetricFamilies(response.Body))
}

// Sum returns the sum of a family of counters or gauges.
func (m Metrics) Sum(name string) (sum float64) {
	for _, metric := range m[name].GetMetric() {
		sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
	}
	return sum
}
