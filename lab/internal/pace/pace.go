// Package pace has the random pauses of runs of the lab.
package pace

import (
	"math/rand/v2"
	"time"
)

// Between returns a random time, at least shortest and less than longest, which
// must be longer.
func Between(rng *rand.Rand, shortest, longest time.Duration) time.Duration {
	return shortest + time.Duration(rng.Int64N(int64(longest-shortest)))
}
