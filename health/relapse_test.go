package health_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/health"
)

func TestEndpointThatRelapsesGetsWritesLaterEachTime(t *testing.T) {
	for _, verdict := range []health.Kind{health.Stalled, health.Unresponsive} {
		var r health.Record
		at := t0
		relapse := func(served time.Duration) time.Duration {
			at = at.Add(served)
			for _, kind := range []health.Kind{health.Suspicious, verdict, health.Unresponsive, health.Served} {
				at = at.Add(time.Second)
				r = r.Next(health.Evidence{Kind: kind, At: at})
			}
			assert.Equal(t, health.Serving, r.State)
			return r.WritesFrom.Sub(at)
		}
		for _, want := range []time.Duration{4, 8, 16, 30, 30, 30, 30, 30, 30, 30, 30} {
			assert.Equal(t, want*time.Second, relapse(2*time.Second))
		}
		assert.Equal(t, 30*time.Second, relapse(80*time.Second), "trusted for 50 s")
		assert.Equal(t, 4*time.Second, relapse(2*time.Minute), "the verdicts are forgotten")
	}
}

// Suspicions, and what a member says of itself, are no verdicts.
func TestOnlyVerdictsAreRelapses(t *testing.T) {
	var r health.Record
	for i := range 40 {
		kinds := []health.Kind{health.Suspicious, health.Served, health.Degrading, health.Served, health.ConnectFailed, health.Served}
		r = r.Next(health.Evidence{Kind: kinds[i%len(kinds)], At: t0.Add(time.Duration(i) * time.Second)})
		assert.Zero(t, r.WritesFrom)
	}
}

// An endpoint that is suspected because many of its calls failed needs several that do not, and more after a relapse.
func TestEndpointWhoseCallsFailServesAfterSeveralThatDoNot(t *testing.T) {
	var r health.Record
	for _, want := range []int{3, 6, 12, 24, 24} {
		r = r.Next(health.Evidence{Kind: health.Suspicious, At: t0, Often: true})
		r = r.Next(health.Evidence{Kind: health.Served, At: t0})
		r = r.Next(health.Evidence{Kind: health.Suspicious, At: t0, Often: true}) // begins anew
		good := 0
		for ; r.State == health.Suspected; good++ {
			r = r.Next(health.Evidence{Kind: health.Served, At: t0})
		}
		assert.Equal(t, want, good)
		assert.Equal(t, health.Serving, r.State)
	}
}
