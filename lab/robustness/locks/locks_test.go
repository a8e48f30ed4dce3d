//go:build experiment

package locks

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client/official"
	"github.com/quorate/quorate/lab/robustness/internal/soaktest"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

// TestLocks is the short form of "quorate-lab soak locks".
func TestLocks(t *testing.T) {
	ctx, cfg := soaktest.Short(t, func(c *robustness.Counts) bool {
		taken := func(style lockcheck.Style) bool { return c.Of(string(style), string(lockcheck.Taken)) > 0 }
		return taken(lockcheck.Lock) && taken(lockcheck.Campaign) && c.Of("writes", "accepted") > 0 && c.Of("writes", "refused") > 0 &&
			c.Of("pauses", "until the lock had gone") > 0
	})
	result, err := Config{Config: cfg}.Run(ctx)
	require.NoError(t, err)
	t.Log("\n" + result.String())
	// On a machine that other tests keep busy sessions of 2 s do not last, and not all take a lock in the end.
	require.Equal(t, result.Verdict.Counts[lockcheck.Live], result.Verdict.Total(), "%v", result)
	for _, style := range []lockcheck.Style{lockcheck.Lock, lockcheck.Campaign} {
		assert.Positive(t, result.Counts.Of(string(style), string(lockcheck.Taken)), style)
	}
	assert.Positive(t, result.Counts.Of("writes", "refused"), "no contender wrote that had lost the lock")
	assert.Positive(t, result.Counts.Of("pauses", "until the lock had gone"), "no pause outlasted a lease")
}

// TestOfficial shows how the official client does under the same faults. What it breaks is no failure of ours.
func TestOfficial(t *testing.T) {
	result, err := Config{Config: soaktest.Fixed(t), connect: official.Locker}.Run(t.Context())
	require.NoError(t, err)
	t.Log("\n" + result.String())
}
