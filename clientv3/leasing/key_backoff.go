package leasing

import "time"

// keyBackoffTime is for how long a key that another client wanted, or has, is not
// acquired. The value is that of the official client: it keeps a key that several
// clients write from being acquired and revoked for each write.
const keyBackoffTime = 2 * time.Second

// keyBackoff remembers keys for a while. Adding and asking cost amortized O(1).
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
		if c.until[first.key].Equal(first.until) { // and not added again
			delete(c.until, first.key)
		}
	}
}
