package main

import (
	"context"
	"time"

	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/internal/scrape"
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

func costOf(ctx context.Context, c *kube.ControlPlane, ready, idle time.Duration) cost {
	started := fatal.OK(metrics(ctx, c))
	fatal.If(pause.For(ctx, idle))
	after := fatal.OK(metrics(ctx, c))
	r := cost{
		Ready: ready.Seconds(), StartCPU: started.Sum("process_cpu_seconds_total"),
		Heap: after.Sum("go_memstats_next_gc_bytes") / 2 / (1 << 20),
	}
	if idle > 0 {
		r.IdleCPU = (after.Sum("process_cpu_seconds_total") - started.Sum("process_cpu_seconds_total")) / idle.Minutes()
	}
	for _, m := range c.Etcd().Members() {
		r.Connections += c.Etcd().ClientLink(m).Stats().Active
	}
	return r
}

func metrics(ctx context.Context, c *kube.ControlPlane) (scrape.Metrics, error) {
	client, err := rest.HTTPClientFor(c.Admin())
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	return scrape.Read(ctx, client, c.URL())
}
