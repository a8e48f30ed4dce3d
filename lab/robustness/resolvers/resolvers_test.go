//go:build experiment

package resolvers

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness"
)

var (
	seed     = flag.Uint64("seed", 1, "seed of the runs")
	duration = flag.Duration("names", 20*time.Second, "how long TestNames injects faults")
	bound    = flag.Duration("bound", 5*time.Second, "how long channels may take in TestNames, on a machine that is busy")
	only     = flag.String("resolver", "", "the resolver under test in TestNames, default all")
)

// TestNames is the short form of "quorate-lab soak resolvers".
func TestNames(t *testing.T) {
	cfg := Config{Config: robustness.Config{Duration: *duration, Seed: *seed, Dir: t.TempDir(), Log: t.Output()}, Bound: *bound}
	if *only != "" {
		cfg.Resolvers = []string{*only}
	}
	result, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.True(t, result.Verdict.OK(), "%v", result)
	t.Log("\n" + result.String())
	for _, trial := range result.Trials {
		assert.Positive(t, trial.Calls, trial.Resolver)
		assert.Positive(t, trial.Opened.Count, trial.Resolver)
		if trial.Resolver != "static" {
			assert.NotEmpty(t, trial.Faults, trial.Resolver)
			assert.Positive(t, trial.Seen.Count, trial.Resolver)
		}
	}
}
