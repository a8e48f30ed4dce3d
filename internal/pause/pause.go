// Package pause waits.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits for d and returns nil, or the error of ctx if that ends earlier.
func For(ctx context.Context, d time.Duration) error { return Until(ctx, nil, d) }

// About is For with a random wait of half of mean to one and a half: it spreads those that begin to wait together.
func About(ctx context.Context, mean time.Duration) error { return For(ctx, mean/2+rand.N(mean)) }

// Until waits until wake is closed or has a value, at most for d, and returns nil, or the error of
// ctx if that ends earlier.
func Until(ctx context.Context, wake <-chan struct{}, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Signal puts a value into a channel of capacity 1, unless it has one: what waits for it wakes.
func Signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
