package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrapeTimeout bounds the reading of a member's metrics.
const scrapeTimeout = 20 * time.Second

// scraper keeps no connections, so that members can restart.
var scraper = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// reading is what a member has counted since it started.
type reading struct {
	// rpcs are the RPCs started, unary and streams, by method: "KV/Range".
	rpcs map[string]float64
	// cpu is the CPU time in seconds.
	cpu float64
}

// total returns the number of RPCs of all methods.
func (r reading) total() float64 {
	var sum float64
	for _, n := range r.rpcs {
		sum += n
	}
	return sum
}

// add adds what another member, or the same one later, has counted, times sign.
func (r *reading) add(other reading, sign float64) {
	if r.rpcs == nil {
		r.rpcs = make(map[string]float64)
	}
	for method, n := range other.rpcs {
		r.rpcs[method] += sign * n
	}
	r.cpu += sign * other.cpu
}

// scrape reads the metrics of the member at a URL.
func scrape(ctx context.Context, endpoint string) (reading, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/metrics", http.NoBody)
	if err != nil {
		return reading{}, err
	}
	response, err := scraper.Do(request)
	if err != nil {
		return reading{}, err
	}
	defer func() { _ = response.Body.Close() }() // all that matters has been read
	if response.StatusCode != http.StatusOK {
		return reading{}, fmt.Errorf("%s/metrics: %s", endpoint, response.Status)
	}
	return parseMetrics(response.Body)
}

// parseMetrics reads the Prometheus text format.
func parseMetrics(text io.Reader) (reading, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return reading{}, fmt.Errorf("metrics: %w", err)
	}
	for _, name := range []string{"grpc_server_started_total", "process_cpu_seconds_total"} {
		if families[name] == nil {
			return reading{}, fmt.Errorf("metrics: %s is missing", name)
		}
	}
	r := reading{rpcs: make(map[string]float64)}
	for _, m := range families["grpc_server_started_total"].GetMetric() {
		r.rpcs[method(m)] += m.GetCounter().GetValue()
	}
	for _, m := range families["process_cpu_seconds_total"].GetMetric() {
		r.cpu += m.GetCounter().GetValue()
	}
	return r, nil
}

// method returns the service, without its package, and the method of a metric.
func method(m *dto.Metric) string {
	service := label(m, "grpc_service")
	return service[strings.LastIndexByte(service, '.')+1:] + "/" + label(m, "grpc_method")
}

func label(m *dto.Metric, name string) string {
	for _, pair := range m.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}
