package measure

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness/history"
)

const ms = time.Millisecond

func call(start, end time.Duration, o history.Outcome) history.Call {
	c := history.Call{Kind: history.Put, Start: start, End: end, Outcome: o}
	if o != history.OK {
		c.Code, c.Err = "Unavailable", errors.New("first of "+o.String())
	}
	return c
}

func TestHistogramQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, scale := range []time.Duration{100, time.Microsecond, ms, time.Second, time.Hour} {
		var h histogram
		var exact []time.Duration
		for range 5000 {
			d := time.Duration(rng.ExpFloat64() * float64(scale))
			h.add(d)
			exact = append(exact, d)
		}
		slices.Sort(exact)
		for q, rank := range map[float64]int{0: 1, 0.5: 2500, 0.99: 4950, 1: 5000} {
			want, got := exact[rank-1], h.quantile(q)
			assert.GreaterOrEqual(t, got, want, "scale %v, quantile %v", scale, q)
			assert.LessOrEqual(t, float64(got), float64(want)*1.008, "scale %v, quantile %v", scale, q)
		}
		assert.Equal(t, exact[len(exact)-1], h.max)
	}
}

func TestHistogramEdges(t *testing.T) {
	var h histogram
	assert.Zero(t, h.quantile(0.5))
	h.add(-ms)
	assert.Zero(t, h.quantile(0.99))
	h.add(7)
	assert.EqualValues(t, 7, h.quantile(0.99))
	for _, v := range []uint64{0, 1, 127, 128, 255, 256, 257, 1 << 20, 1<<40 - 1, 1 << 40} {
		assert.GreaterOrEqual(t, bucketTop(bucket(v)), v)
		if i := bucket(v); i > 0 {
			assert.Less(t, bucketTop(i-1), v)
		}
	}
}

func TestCallsBelongToTheRowTheyStartedIn(t *testing.T) {
	var m Meter
	m.Observe(call(0, 1, history.OK)) // before the first row
	m.Begin("healthy", 10*ms)
	m.Observe(call(20*ms, 30*ms, history.OK))
	m.Begin("stop", 100*ms)
	m.Observe(call(90*ms, 190*ms, history.Unknown))
	m.Observe(call(110*ms, 130*ms, history.Failed))
	m.Observe(call(120*ms, 140*ms, history.Abandoned))
	m.End(200 * ms)
	m.Observe(call(150*ms, 250*ms, history.OK))
	m.Observe(call(210*ms, 220*ms, history.OK)) // after the last row

	rows := m.Rows(time.Hour)
	require.Len(t, rows, 2)
	healthy, stop := rows[0].Kinds[history.Put], rows[1].Kinds[history.Put]
	assert.Equal(t, []int64{1, 0, 1}, []int64{healthy.Completed, healthy.Errors, healthy.Unknown})
	assert.Equal(t, 100*ms, healthy.Max)
	assert.Equal(t, []int64{1, 1, 0}, []int64{stop.Completed, stop.Errors, stop.Unknown})
	assert.Equal(t, map[string]int64{"Unavailable": 1}, stop.Codes)
	assert.EqualValues(t, 2, stop.Calls())
	assert.Equal(t, map[string]string{"Unavailable": "first of unknown"}, m.ErrorSamples())
	assert.Equal(t, 10*ms, rows[0].Start)
	assert.Equal(t, 100*ms, rows[0].End)
	assert.Equal(t, 200*ms, rows[1].End)
}

func TestLongestGap(t *testing.T) {
	tests := []struct {
		name  string
		calls []history.Call
		want  time.Duration
	}{
		{"no calls at all", nil, 100 * ms},
		{"at the beginning", []history.Call{call(70*ms, 75*ms, history.OK), call(76*ms, 99*ms, history.OK)}, 75 * ms},
		{"in the middle", []history.Call{call(0, 10*ms, history.OK), call(0, 90*ms, history.OK)}, 80 * ms},
		{"at the end", []history.Call{call(0, 10*ms, history.OK), call(0, 15*ms, history.OK)}, 85 * ms},
		{"errors do not end it", []history.Call{
			call(0, 10*ms, history.OK), call(20*ms, 50*ms, history.Failed),
			call(20*ms, 60*ms, history.Unknown),
		}, 90 * ms},
		{"arrivals out of order", []history.Call{call(0, 50*ms, history.OK), call(0, 49*ms, history.OK), call(0, 80*ms, history.OK)}, 50 * ms},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var m Meter
			m.Begin("row", 0)
			for _, c := range tt.calls {
				m.Observe(c)
			}
			live := m.Rows(100 * ms)
			m.End(100 * ms)
			ended := m.Rows(time.Hour)
			assert.Equal(t, tt.want, ended[0].Kinds[history.Put].LongestGap)
			assert.True(t, live[0].Open)
			live[0].Open = false
			assert.Empty(t, cmp.Diff(ended, live), "a row that ends now reads as the live one did")
		})
	}
}

func TestGapBelongsToTheRowItHappenedIn(t *testing.T) {
	var m Meter
	m.Begin("stop", 0)
	m.Begin("healed", 100*ms)
	m.Observe(call(50*ms, 110*ms, history.OK)) // counted in the first row, ends a gap of the second
	m.End(130 * ms)
	rows := m.Rows(0)
	assert.Equal(t, 100*ms, rows[0].Kinds[history.Put].LongestGap)
	assert.Equal(t, 20*ms, rows[1].Kinds[history.Put].LongestGap)
	assert.EqualValues(t, 1, rows[0].Kinds[history.Put].Completed)
	assert.Zero(t, rows[1].Kinds[history.Put].Completed)
}

func TestNotesAndStaleness(t *testing.T) {
	var m Meter
	m.Note(0, "dropped: there is no row")
	m.Begin("kill", 0)
	m.Note(5*ms, "m2 killed")
	m.Observe(history.Call{Kind: history.SerializableGet, Start: 1, End: 2, Behind: 9})
	m.Observe(history.Call{Kind: history.SerializableGet, Start: 1, End: 2, Behind: 4})
	rows := m.Rows(10 * ms)
	assert.Equal(t, []Note{{At: 5 * ms, Text: "m2 killed"}}, rows[0].Notes)
	assert.EqualValues(t, 9, rows[0].Kinds[history.SerializableGet].MaxBehind)
}
