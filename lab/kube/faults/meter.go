package main

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/scrape"
	"github.com/quorate/quorate/lab/kube"
)

// meter keeps the worst figures of a phase, and the writes that watches have still to show.
type meter struct {
	mu      sync.Mutex
	worst   row
	pending map[string]*pendingWrite // events that watches have not delivered, by object
}

// pendingWrite is a write that was answered, and how many watches have not shown it.
type pendingWrite struct {
	at    time.Time
	count int
}

func (m *meter) note(change func(*row)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.worst)
}

// reset begins a phase, that of a fault or of none.
func (m *meter) reset(fault string) {
	m.note(func(r *row) { *r = row{Fault: fault} })
}

// read ends a phase. A write that is still pending counts as late as it is by now.
func (m *meter) read() row {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.worst
	for _, o := range m.pending {
		if !o.at.IsZero() {
			r.Event = max(r.Event, time.Since(o.at).Seconds())
		}
	}
	return r
}

// wrote notes that the write of an object was answered.
func (m *meter) wrote(name string, watches int) {
	m.update(name, func(o *pendingWrite) {
		o.at = time.Now()
		o.count += watches
	})
}

// delivered notes that a watch has shown an object, perhaps before its write was answered.
func (m *meter) delivered(name string) {
	m.update(name, func(o *pendingWrite) {
		o.count--
		if !o.at.IsZero() {
			m.worst.Event = max(m.worst.Event, time.Since(o.at).Seconds())
		}
	})
}

// update changes a pending write, which is over when its count is 0.
func (m *meter) update(name string, change func(*pendingWrite)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.pending[name]
	if o == nil {
		o = &pendingWrite{}
		m.pending[name] = o
	}
	change(o)
	if o.count == 0 {
		delete(m.pending, name)
	}
}

// forget drops a write whose outcome is not known.
func (m *meter) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pending, name)
}

// cost is what an API server without load costs.
type cost struct {
	Ready       float64 `json:"ready_seconds"`           // until it was ready, etcd's start included
	StartCPU    float64 `json:"start_cpu_seconds"`       // until it was ready
	IdleCPU     float64 `json:"idle_cpu_seconds_minute"` // seconds a minute
	Heap        float64 `json:"heap_mib"`                // live, derived from the target of the next collection
	Connections int     `json:"connections"`             // to etcd
}

func costOf(ctx context.Context, c *kube.ControlPlane, ready, idle time.Duration) cost {
	started := metrics(ctx, c)
	fatal.If(pause.For(ctx, idle))
	after := metrics(ctx, c)
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

func metrics(ctx context.Context, c *kube.ControlPlane) scrape.Metrics {
	client := fatal.OK(rest.HTTPClientFor(c.Admin()))
	defer client.CloseIdleConnections()
	return scrape.Read(ctx, client, c.URL())
}
