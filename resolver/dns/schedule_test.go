package dns

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// within checks that many delays are between least and most, and not all equal.
func within(t *testing.T, least, most time.Duration, draw func() time.Duration) {
	t.Helper()
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := draw()
		seen[d] = true
		assert.GreaterOrEqual(t, d, least)
		assert.LessOrEqual(t, d, most)
	}
	if least < most {
		assert.Greater(t, len(seen), 100, "it is not random")
	}
}

func TestDelayAfterAnswers(t *testing.T) {
	s := schedule{interval: 5 * time.Second, floor: time.Second}
	for _, c := range []struct{ ttl, least, most time.Duration }{
		{unknownTTL, 4500 * time.Millisecond, 5 * time.Second},
		{0, 4500 * time.Millisecond, 5 * time.Second},
		{time.Hour, 4500 * time.Millisecond, 5 * time.Second},
		{5 * time.Second, 5 * time.Second, 5 * time.Second},
		{4800 * time.Millisecond, 4800 * time.Millisecond, 5 * time.Second},
		{2 * time.Second, 2 * time.Second, 2200 * time.Millisecond},
		{time.Millisecond, time.Second, 1100 * time.Millisecond},
	} {
		within(t, c.least, c.most, func() time.Duration { return s.afterAnswer(c.ttl) })
	}
	within(t, 2500*time.Millisecond, 5*time.Second, func() time.Duration { return s.first(5 * time.Second) })
	within(t, time.Second, 1200*time.Millisecond, func() time.Duration { return s.first(1200 * time.Millisecond) })
	// A long interval lets the TTL decide.
	s.interval = 10 * time.Minute
	within(t, 30*time.Second, 33*time.Second, func() time.Duration { return s.afterAnswer(30 * time.Second) })
}

func TestDelayAfterFailures(t *testing.T) {
	s := schedule{interval: 5 * time.Second, floor: time.Second}
	for n, c := range map[int]struct{ least, most time.Duration }{
		1:    {time.Second, 1100 * time.Millisecond},
		2:    {2 * time.Second, 2200 * time.Millisecond},
		3:    {4 * time.Second, 4400 * time.Millisecond},
		4:    {5 * time.Second, 5500 * time.Millisecond},
		1000: {5 * time.Second, 5500 * time.Millisecond},
	} {
		within(t, c.least, c.most, func() time.Duration { return s.afterFailure(n) })
	}
	s.interval = time.Hour
	within(t, 30*time.Second, 33*time.Second, func() time.Duration { return s.afterFailure(1000) })
}

// The confirmation is never put off by a lookup that comes shortly before it.
func TestDelayUntilConfirmed(t *testing.T) {
	s := schedule{interval: 5 * time.Second, floor: time.Second}
	for _, c := range []struct{ usual, due, want time.Duration }{
		{5 * time.Second, 15 * time.Second, 5 * time.Second},
		{5 * time.Second, 6 * time.Second, 5 * time.Second},
		{5 * time.Second, 5900 * time.Millisecond, 5900 * time.Millisecond},
		{5 * time.Second, 3 * time.Second, 3 * time.Second},
		{5 * time.Second, time.Millisecond, time.Second},
		{5 * time.Second, -time.Second, time.Second},
	} {
		assert.Equal(t, c.want, s.untilConfirmed(c.usual, c.due), "%v", c)
	}
}
