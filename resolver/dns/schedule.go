package dns

import (
	"math/rand/v2"
	"time"
)

// longestRetry bounds the delay after failures if Interval is longer.
const longestRetry = 30 * time.Second

// first is the delay after the first answer: random, between MinInterval or half of the usual delay,
// whichever is longer, and the usual delay. It spreads processes that start together.
func (c Config) first(d time.Duration) time.Duration {
	return max(d/2+rand.N(d/2+1), min(c.MinInterval, d))
}

// afterAnswer is the delay after an answer: at most the interval, shortened at random by up to a
// tenth. An answer in a cache does not change before its TTL has passed, so a TTL within the
// interval is waited for, and up to a tenth longer.
//
// A TTL of zero says that the answer must not be cached, not when it will change. It is treated as
// unknown: servers that use it for all records would otherwise be queried continuously.
func (c Config) afterAnswer(ttl time.Duration) time.Duration {
	usual := c.Interval - rand.N(c.Interval/10+1)
	switch {
	case ttl <= 0 || ttl > c.Interval:
		return usual
	case ttl >= usual:
		return ttl
	}
	ttl = max(ttl, c.MinInterval)
	return min(ttl+rand.N(ttl/10+1), c.Interval)
}

// afterFailure is the delay after the nth failure in a row, from 1 on: it begins at MinInterval
// and doubles, plus up to a tenth.
func (c Config) afterFailure(n int) time.Duration {
	longest := min(c.Interval, longestRetry)
	d := c.MinInterval
	for ; n > 1 && d < longest; n-- {
		d *= 2
	}
	d = min(d, longest)
	return d + rand.N(d/10+1)
}

// untilConfirmed is the delay while an answer is doubted and can be confirmed from due on: usual,
// or due if a lookup after usual would put off the confirmation.
func (c Config) untilConfirmed(usual, due time.Duration) time.Duration {
	if usual > due-c.MinInterval {
		return max(due, c.MinInterval)
	}
	return usual
}
