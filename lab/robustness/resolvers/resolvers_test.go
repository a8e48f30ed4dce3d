//go:build experiment

package resolvers

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/internal/soaktest"
)

// bound is how long channels may take in TestNames, on a machine that is busy.
const bound = 5 * time.Second

// TestNames is the short form of "quorate-lab soak resolvers".
func TestNames(t *testing.T) {
	ctx, cfg := soaktest.Short(t, func(c *robustness.Counts) bool {
		return !slices.ContainsFunc(Resolvers(), func(name string) bool {
			return c.Of(name+" calls", "made") < 20 || name != "static" && c.Of(name+" changes", "made") < 2
		})
	})
	result, err := Config{Config: cfg, bound: bound}.Run(ctx)
	require.NoError(t, err)
	require.True(t, result.Verdict.OK(), "%v", result)
	t.Log("\n" + result.String())
	for _, name := range Resolvers() {
		assert.Positive(t, result.Counts.Of(name+" calls", "made"), name)
		assert.Positive(t, result.Counts.Of(name+" opened", "seen by channels"), name)
		if name != "static" {
			assert.Positive(t, result.Counts.Of(name+" changes", "seen by channels"), name)
		}
	}
}
