package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A call that takes the lock first begins the blocks of the calls that were counted before it.
func TestLatencyOfTheFirstOfManyBlocks(t *testing.T) {
	var l Latency
	for range latencyBlock {
		l.Observe(50 * time.Millisecond)
	}
	l.samples.Add(latencyBlocks*latencyBlock - latencyBlock)
	l.Observe(50 * time.Millisecond)
	assert.Equal(t, 50*time.Millisecond, l.P99())
	l.Observe(50 * time.Millisecond)
	assert.Equal(t, 50*time.Millisecond, l.P99())
}
