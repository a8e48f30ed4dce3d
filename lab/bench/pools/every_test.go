//go:build experiment

package pools

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryContender takes a short sample of each contender. It checks no values: they depend on the machine.
func TestEveryContender(t *testing.T) {
	for _, c := range cases() {
		for _, contender := range c.contenders {
			values, err := contender.sample(t.Context(), c.length/20)
			require.NoError(t, err, "%s: %s", c.name, contender.name)
			assert.Len(t, values, len(c.metrics), "%s: %s", c.name, contender.name)
		}
	}
}
