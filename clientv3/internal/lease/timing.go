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
	// crowdSpread is the part of an interval that leases are spread over after
	// they were sent together: a burst is gone after one round. It cannot be much
	// more, since what is sent early is sent more often.
	crowdSpread = 0.5

	// steadySpread is the part of an interval that leases are spread over
	// otherwise. It keeps clients from falling into step, for 1.5 % more requests.
	steadySpread = 1.0 / 32

	// silenceShare is the part of the TTL for which a stream may owe answers and
	// stay silent. With a fault just after a renewal the next request is sent
	// after a third of the TTL, the stream given up after another quarter, and
	// there is time left to try two members more.
	silenceShare = 4

	// maxSilence bounds that for long leases. A leader that lives answers at once,
	// and an election takes less by etcd's defaults.
	maxSilence = 2 * time.Second

	// minPause is the least time between two attempts that a lease's end is reason
	// enough to shorten.
	minPause = 20 * time.Millisecond

	// maxMove is how long a stream stays at most with an endpoint that was removed.
	// It is spread below that: what removed the endpoint tells all clients at once.
	maxMove = time.Second
)

// interval returns how long after a request the next one is due. r is between 0
// and 1.
func interval(ttl time.Duration, crowd bool, r float64) time.Duration {
	spread := steadySpread
	if crowd {
		spread = crowdSpread
	}
	third := float64(ttl / 3)
	return time.Duration(third - r*spread*third)
}

// window returns how much earlier than due a lease may be renewed to go together
// with another. A batch wakes everybody on its way once, here and on the server, and
// that is most of what a small one costs. With 20 s between renewals there are two
// batches a second at most, of any number of leases, for 1.5 % more requests.
func window(ttl time.Duration) time.Duration { return ttl / 3 / 32 }

// seconds turns a TTL into a duration, and one that is too long for that into the
// longest there is.
func seconds(ttl int64) time.Duration {
	if ttl > int64(math.MaxInt64/time.Second) {
		return math.MaxInt64
	}
	return time.Duration(ttl) * time.Second
}
