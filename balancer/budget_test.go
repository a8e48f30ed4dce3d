package balancer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// spend spends all tokens and returns their number.
func (b *budget) spend(now time.Time, reserve float64) (n int) {
	for b.take(now, reserve) {
		n++
	}
	return n
}

func TestBudget(t *testing.T) {
	now := time.Now()
	var b budget
	assert.Equal(t, probeBurst, b.spend(now, 0), "the burst")
	assert.Zero(t, b.spend(now.Add(3999*time.Millisecond), 0))
	assert.Equal(t, 1, b.spend(now.Add(4*time.Second), 0), "a quarter a second")
	now = now.Add(4 * time.Second)
	assert.Equal(t, 5, b.spend(now.Add(20*time.Second), 0))
	now = now.Add(20 * time.Second)
	for range 149 {
		b.calls.Add(1)
	}
	assert.Equal(t, 2, b.spend(now, 0), "2 % of the calls")
	b.calls.Add(1)
	assert.Equal(t, 1, b.spend(now, 0), "shares add up")
	for range 100_000 {
		b.calls.Add(1)
	}
	assert.Equal(t, probeBurst, b.spend(now.Add(time.Hour), 0), "the burst bounds the tokens")
	assert.Zero(t, b.spend(now, 0), "an earlier time adds nothing")
}

func TestBudgetKeepsAReserve(t *testing.T) {
	now := time.Now()
	var b budget
	assert.Equal(t, probeBurst-probeReserve, b.spend(now, probeReserve))
	assert.Equal(t, probeReserve, b.spend(now, 0))
	later := time.Duration(probeReserve/probeRate) * time.Second
	assert.Zero(t, b.spend(now.Add(later), probeReserve))
	assert.Equal(t, 1, b.spend(now.Add(later+4*time.Second), probeReserve))
}

func TestBudgetAllowsAQuarterOfAProbeASecond(t *testing.T) {
	now := time.Now()
	var b budget
	n := 0
	for range 60_000 {
		n += b.spend(now, 0)
		now = now.Add(time.Millisecond)
	}
	assert.Equal(t, probeBurst+60/4-1, n)
}

func TestBudgetAfterAnOutage(t *testing.T) {
	now := time.Now()
	var unused, used budget
	unused.keep(outageProbes, now)
	assert.Equal(t, outageProbes, unused.spend(now, 0))
	assert.Equal(t, 1, unused.spend(now.Add(4*time.Second), 0), "it earns as before")

	used.spend(now, 0)
	used.keep(outageProbes, now.Add(4*time.Second))
	assert.Equal(t, 1, used.spend(now.Add(4*time.Second), 0), "nothing is added")
}
