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
)

// timeout bounds the reading of a server's metrics.
const timeout = 20 * time.Second

// Metrics are the families of a server by name.
type Metrics map[string]*dto.MetricFamily

// Client keeps no connections, so that servers can restart.
var Client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Read reads the metrics of the server at a URL.
func Read(ctx context.Context, client *http.Client, url string) (Metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // all that matters has been read
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s/metrics: %s", url, response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

// Sum returns the sum of a family of counters or gauges.
func (m Metrics) Sum(name string) (sum float64) {
	for _, metric := range m[name].GetMetric() {
		sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
	}
	return sum
}
