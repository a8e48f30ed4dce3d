package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/scrape"
	"github.com/quorate/quorate/lab/link"
)

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

// read reads the metrics of a member.
func read(ctx context.Context, member *lab.Member) (reading, error) {
	metrics, err := scrape.Read(ctx, scrape.Client, member.DirectEndpoint())
	if err != nil {
		return reading{}, fmt.Errorf("read %s: %w", member.Name(), err)
	}
	return readingOf(metrics)
}

func readingOf(metrics scrape.Metrics) (reading, error) {
	const rpcs, cpu = "grpc_server_started_total", "process_cpu_seconds_total"
	for _, name := range []string{rpcs, cpu} {
		if metrics[name] == nil {
			return reading{}, fmt.Errorf("metrics: %s is missing", name)
		}
	}
	return reading{metrics.By(rpcs, method), metrics.Sum(cpu)}, nil
}

// readLive reads the metrics of the members that run and are not frozen, by their names.
func readLive(ctx context.Context, members []*lab.Member) (map[string]reading, error) {
	all := make(map[string]reading)
	for _, m := range members {
		if !m.Alive() || m.Stopped() {
			continue
		}
		r, err := read(ctx, m)
		if err != nil {
			return nil, err
		}
		all[m.Name()] = r
	}
	return all, nil
}

// countedSince returns what the live members have counted since they were read before, all together. A
// member that was killed or frozen meanwhile does not count.
func countedSince(ctx context.Context, members []*lab.Member, before map[string]reading) (sum reading, err error) {
	now, err := readLive(ctx, members)
	for name, r := range now {
		sum.add(r, 1)
		sum.add(before[name], -1)
	}
	return sum, err
}

// reached returns how many connections have reached a member over the links since they were made.
func reached(links []*link.Link) float64 {
	var sum float64
	for _, l := range links {
		stats := l.Stats()
		sum += float64(stats.Accepted) - float64(stats.Refused)
	}
	return sum
}

// method returns the service, without its package, and the method of a metric.
func method(labels map[string]string) string {
	service := labels["grpc_service"]
	return service[strings.LastIndexByte(service, '.')+1:] + "/" + labels["grpc_method"]
}
