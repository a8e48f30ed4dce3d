// Package pace has the random pauses that runs of the lab are made of.
package pace

import (
	"math/rand/v2"
	"time"
)

// Between returns a random time from shortest up to, and without, longest, which
// must be longer.
func Between(rng *rand.Rand, shortest, longest time.Duration) time.Duration {
	return shortest + time.Duration(rng.Int64N(int64(longest-shortest)))
}
