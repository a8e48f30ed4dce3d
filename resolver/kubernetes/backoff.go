package kubernetes

import (
	"cmp"
	"math/rand/v2"
	"time"
)

const (
	// firstPause is the pause after the second failure in a row; after the first there is none.
	firstPause = 100 * time.Millisecond
	growth     = 1.6
	// jitter is large, so that clients which lose an API server at the same moment do not return
	// at the same moment.
	jitter = 0.5
	// longestUnreachable bounds the pauses while no connection can be made: such attempts cost the
	// API server nothing, and a restarted one is noticed soon.
	longestUnreachable = time.Second
)

// backoff counts failures and computes the pause after each.
type backoff struct {
	failures int
	next     time.Duration
}

func (b *backoff) reset() { b.failures, b.next = 0, 0 }

// pause counts a failure and returns the pause before the next attempt. It never exceeds longest,
// and later pauses grow from at most longest.
func (b *backoff) pause(longest time.Duration) time.Duration {
	b.failures++
	if b.failures == 1 {
		return 0
	}
	b.next = min(cmp.Or(time.Duration(float64(b.next)*growth), firstPause), longest)
	return time.Duration(float64(b.next) * (1 - jitter*rand.Float64()))
}
