package lease

import (
	"math"
	"time"
)

// instant is a point in time, counted from the machine's epoch. It takes a third of
// the space of a time.Time, and every lease has several.
type instant time.Duration

const never instant = math.MaxInt64

func (t instant) add(d time.Duration) instant {
	if sum := t + instant(d); sum >= t || d < 0 {
		return sum
	}
	return never
}

func (t instant) sub(u instant) time.Duration { return time.Duration(t - u) }

const (
	// renewalSpread is the fraction of an interval over which leases are spread
	// after they were sent together: one round dissolves a burst. A larger fraction
	// would cost more requests, since early renewals are more frequent.
	renewalSpread = 0.5

	// steadySpread is the fraction of an interval over which leases are spread
	// otherwise. It keeps clients from synchronizing, for 1.5 % more requests.
	steadySpread = 1.0 / 32

	// silenceShare is the fraction (1/silenceShare) of the TTL for which a stream
	// may be silent with requests unanswered, unless members are known to be slow, see
	// machine_stream.go. After a fault just after a renewal, the next request is sent
	// after a third of the TTL, the stream is closed after another quarter, the
	// next stream after three quarters of the rest, and time is left for a third
	// member.
	silenceShare = 4

	// maxSilence bounds the silence for long leases. A member with a leader answers
	// within milliseconds. One that has lost its leader ends the stream by itself,
	// after three election timeouts: 3 s by etcd's defaults.
	maxSilence = 2 * time.Second

	// maxTolerance bounds the tolerance for slow members.
	maxTolerance = time.Minute

	// pauseShare is the fraction of a lease's remaining time that it may wait for
	// the next attempt to open a stream. minPauseShare is the fraction of its TTL
	// that it waits at least: thousands of leases that expire one after the other
	// must not cause constant attempts while no member answers.
	pauseShare    = 4
	minPauseShare = 32

	// minPause is the least wait of a lease of 2 s or more.
	minPause = 250 * time.Millisecond

	// minWindow is the least window of a lease of 6 s or more.
	minWindow = 125 * time.Millisecond

	// maxMove bounds how long a stream stays on a removed endpoint. The time is
	// random below that, because all clients learn of the removal at once.
	maxMove = time.Second
)

// interval returns how long after a request the next one is due. r is between 0
// and 1.
func interval(ttl time.Duration, many bool, r float64) time.Duration {
	spread := steadySpread
	if many {
		spread = renewalSpread
	}
	third := float64(ttl / 3)
	return time.Duration(third - r*spread*third)
}

// window returns how much earlier than due a lease may be renewed to share a batch
// with another. A batch wakes each goroutine on its path once, here and on the server,
// which is most of the cost of a small batch. With 20 s between renewals there are at
// most two batches per second, for any number of leases and 1.5 % more requests; with
// 2 s there are eight, for 3 %.
func window(ttl time.Duration) time.Duration {
	third := ttl / 3
	return max(third/32, min(third/16, minWindow))
}

// minPauseOf returns the least time that a lease waits for the next attempt to open
// a stream. An eighth of the TTL allows four attempts between a due renewal and the
// expiry.
func minPauseOf(ttl time.Duration) time.Duration {
	return max(ttl/minPauseShare, min(minPause, ttl/8))
}

// seconds converts a TTL to a duration, at most the longest one.
func seconds(ttl int64) time.Duration {
	if ttl > int64(math.MaxInt64/time.Second) {
		return math.MaxInt64
	}
	return time.Duration(ttl) * time.Second
}
