//go:build experiment

package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestEveryBenchmark takes samples that are too small to mean anything.
func TestEveryBenchmark(t *testing.T) {
	for _, of := range benchmarks {
		for _, k := range kinds {
			t.Run(of.name+"/"+k.name, func(t *testing.T) {
				t.Parallel()
				assert.NotEmpty(t, sampled(t, func(ctx context.Context) figures { return of.measure(ctx, k, of.short/10) }))
			})
		}
	}
}

// TestEveryPhase has two processes of clients. Swallow needs iptables.
func TestEveryPhase(t *testing.T) {
	*fleetClients, *fleetProcesses, *phaseLength = 3, 2, 5*time.Second
	for _, p := range phases {
		if p.name == "swallow" {
			continue
		}
		for _, k := range kinds {
			t.Run(p.name+"/"+k.name, func(t *testing.T) {
				t.Parallel()
				f := sampled(t, func(ctx context.Context) figures { return p.measure(ctx, k) })
				switch p.name {
				case "light":
					assert.InDelta(t, 1, f["RPCs/client/s"], 0.7)
					assert.Greater(t, f["answered-%"], 50.0)
				case "no-quorum":
					assert.Less(t, f["answered-%"], 50.0)
				case "storm":
					assert.Positive(t, f["connects"])
					assert.Positive(t, f["RPCs/s-most"])
				case "badcert":
					assert.Positive(t, f["handshakes"])
				}
			})
		}
	}
}
