package registry

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/internal/pause"
)

const (
	// firstDelay is short, as one failure proves little, and long enough not to
	// burden a cluster in which every client has lost its watch at once.
	firstDelay = 100 * time.Millisecond

	// maxDelay bounds what a cluster is asked by those whom it refuses. Attempts that
	// wait for an outage to end take longer than that themselves, so it is not what
	// keeps a change unseen after one.
	maxDelay = 10 * time.Second
)

// Backoff is the time between attempts: a random part, at least half, of what
// doubles from 100 ms to 10 s. The zero value begins at 100 ms.
type Backoff struct {
	last time.Duration
}

// next returns the bound of the next delay, after an attempt that took some time.
func (b *Backoff) next(took time.Duration) time.Duration {
	if took >= maxDelay {
		b.last = 0
	}
	b.last = min(max(2*b.last, firstDelay), maxDelay)
	return b.last
}

// Wait returns when the next delay has passed, or ctx has ended. An attempt that took at
// least as long as the longest delay burdens nobody, and begins the delays again.
func (b *Backoff) Wait(ctx context.Context, took time.Duration) {
	half := b.next(took) / 2
	_ = pause.For(ctx, half+rand.N(half)) // the caller sees that it has ended
}
