package toolkit

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/internal/stats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// BenchmarkPolicies reports medians.
func BenchmarkPolicies(b *testing.B) {
	for _, s := range scenarios {
		b.Run(s.name, func(b *testing.B) {
			for _, p := range policies {
				b.Run(p.name, func(b *testing.B) {
					rounds := map[string][]float64{}
					for b.Loop() {
						for name, figure := range measured(b, s, p) {
							rounds[name] = append(rounds[name], figure)
						}
					}
					b.ReportMetric(0, "ns/op")
					for name, all := range rounds {
						b.ReportMetric(stats.Of(all).Median, name)
					}
				})
			}
		})
	}
}

func measured(t testing.TB, s scenario, p policy) (f figures) {
	require.NoError(t, fatal.Catch(func() { f = measure(s, p) }), "%s, %s", s.name, p.name)
	return f
}

// TestScenarios runs two quick ones. No call fails where no backend does.
func TestScenarios(t *testing.T) {
	callTimeout = time.Minute // a busy machine may stall for longer than calls may take that are measured
	for _, name := range []string{"equal", "not-serving"} {
		s := scenarios[slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })]
		for _, p := range policies {
			f := measured(t, s, p)
			assert.Zero(t, f["failed"], "%s, %s", name, p.name)
			switch {
			case p.name != "pick_first":
			case name == "equal":
				assert.InDelta(t, 100, f["greatest-share-%"], 1e-9)
			default:
				assert.Positive(t, f["calls-to-it"], "the one backend that it uses does not serve")
			}
		}
	}
}
