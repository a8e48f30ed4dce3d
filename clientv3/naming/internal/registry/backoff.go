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

	// maxDelay bounds how long a change stays unseen after an outage.
	maxDelay = 10 * time.Second
)

// backoff is the time between attempts: a random part, at least half, of what
// doubles from firstDelay to maxDelay. The zero value begins at firstDelay.
type backoff struct {
	last time.Duration
}

func (b *backoff) reset() { b.last = 0 }

// next returns the bound of the next delay.
func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, firstDelay), maxDelay)
	return b.last
}

// wait returns when the next delay has passed, or ctx has ended.
func (b *backoff) wait(ctx context.Context) {
	half := b.next() / 2
	_ = pause.For(ctx, half+rand.N(half)) // the caller sees that it has ended
}
