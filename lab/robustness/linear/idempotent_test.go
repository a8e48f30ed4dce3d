//go:build experiment

package linear

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// TestIdempotentWrites is TestLinear with idempotent writes. Only those whose context ends have an unknown outcome.
func TestIdempotentWrites(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result, err := Run(ctx, Config{
		Config:  robustness.Config{Duration: *duration + 3*time.Minute, Seed: *seed, Dir: t.TempDir(), Log: untilEnough{t.Output(), time.Now(), cancel}},
		PageDir: t.ArtifactDir(), Idempotent: true,
	})
	require.NoError(t, err)
	t.Log("\n" + result.String())
	require.True(t, result.Verdict.OK(), "%v", result)
	assert.Positive(t, result.Sum(true, model.Answered))
}
