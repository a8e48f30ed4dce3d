package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSeries(t *testing.T) {
	start := time.Now()
	var s series
	for i, v := range []float64{5, 5, 6, 30, 31, 32} {
		s.at, s.values = append(s.at, start.Add(time.Duration(i)*500*time.Millisecond)), append(s.values, v)
	}
	assert.InDelta(t, 27, s.total(), 0)
	assert.InDelta(t, 25, s.busiest(), 0)

	// Members that do not answer for two seconds have not received all in the last.
	late := series{at: []time.Time{start, start.Add(2 * time.Second)}, values: []float64{0, 20}}
	assert.InDelta(t, 10, late.busiest(), 0)
}

func TestFollow(t *testing.T) {
	n := 0.0
	s := follow(t.Context(), 0, countEvery, func(context.Context) (float64, error) {
		n++
		return n, nil
	})
	s.stop()
	s.stop()
	assert.InDelta(t, n, s.total(), 0)
}
