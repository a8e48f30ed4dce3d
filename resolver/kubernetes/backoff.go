package kubernetes

import (
	"math/rand/v2"
	"time"
)

const (
	// firstPause is the pause after the second failure in a row: the first is followed by an
	// attempt at once.
	firstPause = 100 * time.Millisecond
	growth     = 1.6
	// jitter is large, so that what began together, as all do when an API server goes away,
	// does not come back together.
	jitter = 0.5
	// longestUnreachable bounds the pauses while no connection can be made: the attempts cost
	// no API server anything, and one that is back is to be used soon.
	longestUnreachable = time.Second
)

// backoff counts failures and says how long to wait after each.
type backoff struct {
	failures int
	next     time.Duration
}

func (b *backoff) reset() { b.failures, b.next = 0, 0 }

// pause counts a failure, and returns the time to wait before the next attempt. It is never
// above longest, and neither is what later pauses grow from.
func (b *backoff) pause(longest time.Duration) time.Duration {
	b.failures++
	switch b.failures {
	case 1:
		return 0
	case 2:
		b.next = min(firstPause, longest)
	default:
		b.next = min(time.Duration(float64(b.next)*growth), longest)
	}
	return time.Duration(float64(b.next) * (1 - jitter*rand.Float64()))
}
