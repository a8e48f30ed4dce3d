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
	select {
	case <-time.After(d):
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Closed reports whether a channel to which nothing is sent is closed.
func Closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// Signal puts a value into a channel of capacity 1, unless it has one: a goroutine that waits for it wakes.
func Signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
