package leasing

import "time"

// keyBackoffTime is how long a key that another client wanted, or owns, is not
// acquired. As in the official client, it prevents that a key with several writers
// is acquired and revoked for each write.
const keyBackoffTime = 2 * time.Second

// keyBackoff holds keys for a while. Operations cost amortized O(1).
type keyBackoff struct {
	period time.Duration
	until  map[string]time.Time
	queue  []cooled // in the order of until
}

type cooled struct {
	key   string
	until time.Time
}

func newKeyBackoff() keyBackoff {
	return keyBackoff{period: keyBackoffTime, until: map[string]time.Time{}}
}

func (c *keyBackoff) add(key string, now time.Time) {
	c.expire(now)
	until := now.Add(c.period)
	c.until[key] = until
	c.queue = append(c.queue, cooled{key, until})
}

func (c *keyBackoff) has(key string, now time.Time) bool {
	c.expire(now)
	_, ok := c.until[key]
	return ok
}

func (c *keyBackoff) expire(now time.Time) {
	for len(c.queue) > 0 && !c.queue[0].until.After(now) {
		first := c.queue[0]
		c.queue = c.queue[1:]
		if c.until[first.key].Equal(first.until) { // not added again
			delete(c.until, first.key)
		}
	}
}
