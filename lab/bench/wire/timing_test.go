package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const ttl = 30 * time.Second // a renewal is due every 10 s

func sent(seconds int, lease int64) message {
	return message{at: time.Duration(seconds) * time.Second, lease: lease}
}

func answered(seconds int, lease int64) message {
	return message{at: time.Duration(seconds) * time.Second, lease: lease, ttl: ttl}
}

// TestTiming looks at logs from second 100 to second 130. Lease 1 is renewed at
// second 95, and again where the test does not say otherwise.
func TestTiming(t *testing.T) {
	second := time.Second
	tests := []struct {
		name string
		log  []message
		to   int
		want Timing
	}{
		{"nothing", nil, 105, Timing{}},
		{"in time", []message{sent(105, 1)}, 110, Timing{Sent: 1}},
		{"early, which jitter may be", []message{sent(104, 1)}, 110, Timing{Sent: 1}},
		{
			"late once, then in time",
			[]message{sent(107, 1), answered(108, 1), sent(117, 1)},
			120,
			Timing{Sent: 2, LateMax: 2 * second},
		},
		{
			"resent without an answer",
			[]message{sent(105, 1), sent(106, 1), sent(107, 1)},
			110,
			Timing{Sent: 1, Resends: 2},
		},
		{
			"sent again when it was due, without an answer",
			[]message{sent(105, 1), sent(115, 1)},
			120,
			Timing{Sent: 2},
		},
		{
			"never again", nil, 130,
			Timing{Late50: 25 * second, Late99: 25 * second, LateMax: 25 * second},
		},
		{
			"a lease that is new",
			[]message{sent(100, 2), sent(101, 2), answered(102, 2)},
			105,
			Timing{Resends: 1},
		},
		{
			"after the end",
			[]message{sent(105, 1), sent(106, 1)},
			105,
			Timing{Sent: 1},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log := append([]message{sent(90, 1), sent(91, 1), answered(92, 1), sent(95, 1), answered(96, 1)}, tt.log...)
			assert.Equal(t, tt.want, timing(log, 100*second, time.Duration(tt.to)*second))
		})
	}
}

func TestTimingPercentiles(t *testing.T) {
	var log []message
	for id := range int64(100) {
		log = append(log, message{lease: id}, message{lease: id, ttl: ttl})
	}
	for id := range int64(100) {
		log = append(log, message{at: ttl/3 + time.Duration(id)*time.Millisecond, lease: id})
	}
	assert.Equal(t, Timing{
		Sent: 100, Late50: 49 * time.Millisecond, Late99: 98 * time.Millisecond, LateMax: 99 * time.Millisecond,
	}, timing(log, 0, ttl/3+time.Second/10))
}
