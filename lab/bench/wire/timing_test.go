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

// TestLateness looks at logs from second 100 on. Lease 1 is renewed at second 95, and again where the test does not say otherwise.
func TestLateness(t *testing.T) {
	second := time.Second
	tests := []struct {
		name            string
		log             []message
		to              int
		median, longest time.Duration
	}{
		{"nothing", nil, 105, 0, 0},
		{"in time", []message{sent(105, 1)}, 110, 0, 0},
		{"early, which jitter may be", []message{sent(104, 1)}, 110, 0, 0},
		{"late once, then in time", []message{sent(107, 1), answered(108, 1), sent(117, 1)}, 120, 0, 2 * second},
		{"sent again when it was due, without an answer", []message{sent(105, 1), sent(115, 1)}, 120, 0, 0},
		{"never again", nil, 130, 25 * second, 25 * second},
		{"late twice of three", []message{sent(107, 1), sent(118, 1), sent(128, 1)}, 130, second, 2 * second},
		{"a lease that is new", []message{sent(100, 2), sent(101, 2), answered(102, 2)}, 105, 0, 0},
		{"after the end", []message{sent(105, 1), sent(125, 1)}, 110, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log := append([]message{sent(90, 1), sent(91, 1), answered(92, 1), sent(95, 1), answered(96, 1)}, tt.log...)
			median, longest := lateness(log, 100*second, time.Duration(tt.to)*second)
			assert.Equal(t, []time.Duration{tt.median, tt.longest}, []time.Duration{median, longest})
		})
	}
}
