package lease

import (
	"math"
	"time"
)

// instant is a point in time, counted from the machine's epoch. It takes a third
// of the space of a time.Time, of which every lease has several.
type instant time.Duration

// never is later than everything.
const never instant = math.MaxInt64

func (t instant) add(d time.Duration) instant {
	if sum := t + instant(d); sum >= t || d < 0 {
		return sum
	}
	return never
}

func (t instant) sub(u instant) time.Duration { return time.Duration(t - u) }

const (
	// renewalSpread is the part of an interval that leases are spread over after
	// they were sent together: a burst is gone after one round. It cannot be much
	// more, since what is sent early is sent more often.
	renewalSpread = 0.5

	// steadySpread is the part of an interval that leases are spread over
	// otherwise. It keeps clients from falling into step, for 1.5 % more requests.
	steadySpread = 1.0 / 32

	// silenceShare is the part of the TTL for which a stream may owe answers and
	// stay silent, unless members are known to be slow, see patience. With a fault
	// just after a renewal the next request is sent after a third of the TTL, the
	// stream given up after another quarter, the one after it when three quarters
	// of the rest are over, and there is time left to try a third member.
	silenceShare = 4

	// maxSilence bounds that for long leases. A member with a leader answers within
	// milliseconds. One that has lost its leader ends the stream by itself, after
	// three election timeouts: 3 s by etcd's defaults.
	maxSilence = 2 * time.Second

	// maxTolerance bounds how slow members are believed to be.
	maxTolerance = time.Minute

	// pauseShare is the part of the time left to a lease that it may wait for the
	// next attempt to open a stream, and minPauseShare the part of its TTL that it
	// has to wait in any case: thousands of leases that end one after the other
	// must not have streams opened all the time, when nobody answers on them.
	pauseShare    = 4
	minPauseShare = 32

	// minPause is the least such wait of a lease of 2 s or more.
	minPause = 250 * time.Millisecond

	// minWindow is the least window of a lease of 6 s or more.
	minWindow = 125 * time.Millisecond

	// maxMove is how long a stream stays at most with an endpoint that was removed.
	// It is spread below that: what removed the endpoint tells all clients at once.
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

// window returns how much earlier than due a lease may be renewed to go together
// with another. A batch wakes everybody on its way once, here and on the server, and
// that is most of what a small one costs. With 20 s between renewals there are two
// batches a second at most, of any number of leases, for 1.5 % more requests; with 2 s
// there are eight, for 3 %.
func window(ttl time.Duration) time.Duration {
	third := ttl / 3
	return max(third/32, min(third/16, minWindow))
}

// minPauseOf returns the least time that a lease waits for the next attempt to open
// a stream. An eighth of the TTL leaves four attempts between a renewal that is due
// and the end of the lease.
func minPauseOf(ttl time.Duration) time.Duration {
	return max(ttl/minPauseShare, min(minPause, ttl/8))
}

// seconds turns a TTL into a duration, and one that is too long for that into the
// longest there is.
func seconds(ttl int64) time.Duration {
	if ttl > int64(math.MaxInt64/time.Second) {
		return math.MaxInt64
	}
	return time.Duration(ttl) * time.Second
}
