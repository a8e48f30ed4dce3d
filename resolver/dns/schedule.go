package dns

import (
	"math/rand/v2"
	"time"
)

// longestRetry bounds the delay after failures where Interval is long: while names cannot
// be looked up, waiting for the usual time helps nobody.
const longestRetry = 30 * time.Second

// schedule says when the next lookup is due.
type schedule struct {
	interval, floor time.Duration
}

// first is the delay after the first answer: a random part of what it would be otherwise,
// half of it and the floor at least, so that processes that start together do not ask together
// from then on.
func (s schedule) first(d time.Duration) time.Duration {
	return max(d/2+rand.N(d/2+1), min(s.floor, d))
}

// afterAnswer is the delay after an answer. It is at most the interval, shortened at random by
// up to a tenth; but before its TTL has passed an answer in a cache does not change, so that a
// TTL within the interval is waited for, and up to a tenth longer.
//
// A TTL of zero forbids to keep the answer but does not say when there will be another one.
// It is like one that is not known: servers that have it for all records would otherwise be
// asked all the time.
func (s schedule) afterAnswer(ttl time.Duration) time.Duration {
	usual := s.interval - rand.N(s.interval/10+1)
	switch {
	case ttl <= 0 || ttl > s.interval:
		return usual
	case ttl >= usual:
		return ttl
	}
	ttl = max(ttl, s.floor)
	return min(ttl+rand.N(ttl/10+1), s.interval)
}

// afterFailure is the delay after the nth failure in a row, from 1 on: what doubles from the
// floor on, and up to a tenth of it.
func (s schedule) afterFailure(n int) time.Duration {
	longest := min(s.interval, longestRetry)
	d := s.floor
	for ; n > 1 && d < longest; n-- {
		d *= 2
	}
	d = min(d, longest)
	return d + rand.N(d/10+1)
}

// untilConfirmed is the delay while an answer is doubted, until the confirmation that is worth
// asking for after due: usual, unless that lookup would put off the confirmation, which
// replaces it then.
func (s schedule) untilConfirmed(usual, due time.Duration) time.Duration {
	if usual > due-s.floor {
		return max(due, s.floor)
	}
	return usual
}
