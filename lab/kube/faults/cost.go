package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/kube"
)

// cost is what an API server without load costs.
type cost struct {
	Ready       float64 `json:"ready_seconds"`           // until it was ready, etcd's start included
	StartCPU    float64 `json:"start_cpu_seconds"`       // until then
	IdleCPU     float64 `json:"idle_cpu_seconds_minute"` // seconds a minute
	Heap        float64 `json:"heap_mib"`                // that live, by what the next collection is planned for
	Connections int     `json:"connections"`             // to etcd
}

func costOf(ctx context.Context, c *kube.ControlPlane, ready, idle time.Duration) (cost, error) {
	started, err := metrics(ctx, c)
	if err != nil {
		return cost{}, err
	}
	if err := pause.For(ctx, idle); err != nil {
		return cost{}, err
	}
	after, err := metrics(ctx, c)
	if err != nil {
		return cost{}, err
	}
	r := cost{
		Ready: ready.Seconds(), StartCPU: started["process_cpu_seconds_total"],
		Heap: after["go_memstats_next_gc_bytes"] / 2 / (1 << 20),
	}
	if idle > 0 {
		r.IdleCPU = (after["process_cpu_seconds_total"] - started["process_cpu_seconds_total"]) / idle.Minutes()
	}
	for _, m := range c.Etcd().Members() {
		r.Connections += c.Etcd().ClientLink(m).Stats().Active
	}
	return r, nil
}

// metrics returns the metrics of the API server that have one value.
func metrics(ctx context.Context, c *kube.ControlPlane) (map[string]float64, error) {
	client, err := rest.HTTPClientFor(c.Admin())
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL()+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("the API server's metrics: %w", err)
	}
	all := make(map[string]float64)
	for name, family := range families {
		if m := family.GetMetric(); len(m) == 1 {
			all[name] = m[0].GetGauge().GetValue() + m[0].GetCounter().GetValue()
		}
	}
	return all, nil
}
