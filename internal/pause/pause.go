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

const (
	// firstDelay is short, because one failure proves little, but long enough for a
	// cluster in which all clients lose their watches at once.
	firstDelay = 100 * time.Millisecond

	// maxDelay bounds the load of clients whose requests fail. It does not delay recovery:
	// an attempt that waits until an outage ends takes longer, and resets the delays.
	maxDelay = 10 * time.Second
)

// Backoff is the time between attempts: random between half and all of a bound that
// doubles from 100 ms to 10 s. The zero value begins at 100 ms.
type Backoff struct {
	last time.Duration
}

// next returns the bound of the next delay.
func (b *Backoff) next(took time.Duration) time.Duration {
	if took >= maxDelay {
		b.last = 0
	}
	b.last = min(max(2*b.last, firstDelay), maxDelay)
	return b.last
}

// Wait returns when the next delay has passed, or ctx has ended, after an attempt of the
// given duration.
func (b *Backoff) Wait(ctx context.Context, took time.Duration) {
	half := b.next(took) / 2
	_ = For(ctx, half+rand.N(half)) // the caller sees that it has ended
}
