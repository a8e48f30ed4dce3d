// Package pace has the random pauses that runs of the lab are made of.
package pace

import (
	"context"
	"math/rand/v2"
	"time"
)

// Between returns a random time from shortest up to, and without, longest, which
// must be longer.
func Between(rng *rand.Rand, shortest, longest time.Duration) time.Duration {
	return shortest + time.Duration(rng.Int64N(int64(longest-shortest)))
}

// Sleep returns after d, or with the error of ctx when that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
