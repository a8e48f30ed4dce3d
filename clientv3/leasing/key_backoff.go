package leasing

import (
	"maps"
	"time"
)

// keyBackoffTime is how long a key that another client wanted, or owns, is not
// acquired. As in the official client, a key with several writers is thus not
// acquired and revoked for each write.
const keyBackoffTime = 2 * time.Second

// keyBackoff holds keys for a while. Operations cost amortized O(1).
type keyBackoff struct {
	period time.Duration
	until  map[string]time.Time
	// sweepAt is the number of keys at which those whose time has passed are removed.
	sweepAt int
}

func newKeyBackoff() keyBackoff {
	return keyBackoff{period: keyBackoffTime, until: map[string]time.Time{}}
}

func (k *keyBackoff) add(key string, now time.Time) {
	if len(k.until) >= k.sweepAt {
		maps.DeleteFunc(k.until, func(_ string, until time.Time) bool { return !until.After(now) })
		k.sweepAt = 2*len(k.until) + 64
	}
	k.until[key] = now.Add(k.period)
}

func (k *keyBackoff) has(key string, now time.Time) bool { return k.until[key].After(now) }
