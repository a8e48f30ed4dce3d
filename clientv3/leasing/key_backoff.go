package leasing

import "time"

// keyBackoffTime is how long a key that another client wanted, or owns, is not
// acquired. As in the official client, a key with several writers is thus not
// acquired and revoked for each write.
const keyBackoffTime = 2 * time.Second

// keyBackoff holds keys for a while. Operations cost amortized O(1).
type keyBackoff struct {
	period time.Duration
	until  map[string]time.Time
	queue  []heldKey // in the order of until
}

type heldKey struct {
	key   string
	until time.Time
}

func newKeyBackoff() keyBackoff {
	return keyBackoff{period: keyBackoffTime, until: map[string]time.Time{}}
}

func (k *keyBackoff) add(key string, now time.Time) {
	k.expire(now)
	until := now.Add(k.period)
	k.until[key] = until
	k.queue = append(k.queue, heldKey{key, until})
}

func (k *keyBackoff) has(key string, now time.Time) bool {
	k.expire(now)
	_, ok := k.until[key]
	return ok
}

func (k *keyBackoff) expire(now time.Time) {
	for len(k.queue) > 0 && !k.queue[0].until.After(now) {
		first := k.queue[0]
		k.queue = k.queue[1:]
		if k.until[first.key].Equal(first.until) { // not added again
			delete(k.until, first.key)
		}
	}
}
