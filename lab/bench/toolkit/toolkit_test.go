package toolkit

import (
	"testing"

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
