package watch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTraffic(t *testing.T) {
	type burst struct {
		at     time.Duration
		events int
	}
	for _, tc := range []struct {
		name   string
		bursts []burst
		asked  time.Duration
		busy   bool
	}{
		{"nothing", nil, 0, false},
		{"the current second does not count", []burst{{0, busy}}, 999 * time.Millisecond, false},
		{"the last full second counts", []burst{{0, busy}}, time.Second, true},
		{"until the next full second", []burst{{0, busy}}, 1999 * time.Millisecond, true},
		{"not after the next full second", []burst{{0, busy}}, 2 * time.Second, false},
		{"one event too few", []burst{{0, busy - 1}}, time.Second, false},
		{"a second's bursts are one", []burst{{0, busy / 2}, {999 * time.Millisecond, busy / 2}}, time.Second, true},
		{"those of two seconds are not", []burst{{0, busy / 2}, {time.Second, busy / 2}}, 2 * time.Second, false},
		{"a burst begins the next second", []burst{{0, busy}, {1500 * time.Millisecond, 1}}, 2499 * time.Millisecond, true},
		{"the next second was calm", []burst{{0, busy}, {1500 * time.Millisecond, 1}}, 2500 * time.Millisecond, false},
		{"busy again after a pause", []burst{{0, busy}, {time.Hour, busy}}, time.Hour + time.Second, true},
		{"calm after a pause", []burst{{0, busy}, {time.Hour, busy}}, time.Hour + time.Millisecond, false},
		{"always busy", []burst{{0, busy}, {time.Second, busy}, {2 * time.Second, busy}}, 3 * time.Second, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var tr traffic
			start := time.Date(2024, 2, 29, 23, 59, 59, 0, time.UTC)
			for _, b := range tc.bursts {
				tr.add(b.events, start.Add(b.at))
			}
			assert.Equal(t, tc.busy, tr.busy(start.Add(tc.asked)))
			assert.Equal(t, tc.busy, tr.busy(start.Add(tc.asked)), "busy changes nothing")
		})
	}
}
