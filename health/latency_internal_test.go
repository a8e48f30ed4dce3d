package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Calls that were counted wait for the lock while a later one takes it, and begins a block of each of theirs.
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
