//go:build experiment

package watches

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness/internal/soaktest"
)

// TestSoak is the short form of "quorate-lab soak".
func TestSoak(t *testing.T) {
	result, err := Config{Config: soaktest.Fixed(t)}.Run(t.Context())
	require.NoError(t, err)
	require.True(t, result.Verdict.OK(), "%v", result)
	t.Log("\n" + result.String())
}
