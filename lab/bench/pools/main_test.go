package main

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab/bench/internal/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBadUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--repeat", "0"}, "--repeat must be 1 at least; it is 0"},
		{[]string{"--run", "("}, "--run: error parsing regexp"},
		{[]string{"--run", "nosuch"}, `no case matches --run "nosuch"`},
		{[]string{"extra"}, `unexpected argument "extra"`},
		{[]string{"--nosuch"}, "flag provided but not defined"},
	} {
		var out, errOut bytes.Buffer
		assert.Equal(t, command.Usage, command.Status(t.Context(), "pools", tt.args, &out, &errOut, run), tt.args)
		assert.Contains(t, errOut.String(), tt.want)
		assert.Empty(t, out.String())
	}
}

// TestShort runs everything. What comes out is for the machine to say, but each contender
// has a line.
func TestShort(t *testing.T) {
	var out, errOut bytes.Buffer
	require.Equal(t, command.OK, command.Status(t.Context(), "pools", []string{"--short"}, &out, &errOut, run), "%s", &errOut)
	for _, c := range cases() {
		assert.Contains(t, out.String(), "\n"+c.name+": "+c.about+"\n")
		for _, contender := range c.contenders {
			assert.Contains(t, out.String(), "\n  "+contender.name+" ")
		}
	}
}

// TestMeasure: medians, and ratios to the first contender's.
func TestMeasure(t *testing.T) {
	samples := func(values ...float64) func(context.Context, time.Duration) ([]float64, error) {
		return func(context.Context, time.Duration) ([]float64, error) {
			v := values[0]
			values = values[1:]
			return []float64{v}, nil
		}
	}
	c := measurement{
		name: "sort", about: "It is measured", metrics: []metric{{"n", count}},
		contenders: []contender{
			{name: "first", sample: samples(9, 2, 4)},
			{name: "second", sample: samples(8, 100, 1), target: &target{bound: 1.5}},
			{name: "third", sample: samples(8, 8, 8), target: &target{bound: 2, least: true}},
		},
	}
	rows, err := c.measure(t.Context(), options{Flags: command.Flags{Repeat: 3}}, func(string) {})
	require.NoError(t, err)
	assert.Equal(t, []row{{[]float64{4}, []float64{1}}, {[]float64{8}, []float64{2}}, {[]float64{8}, []float64{2}}}, rows)
	text := table(c, rows)
	assert.Contains(t, text, "2.00  n ≤ 1.5: NO\n")
	assert.Contains(t, text, "2.00  n ≥ 2: yes\n")

	broken := errors.New("broken")
	c.contenders[1].sample = func(context.Context, time.Duration) ([]float64, error) { return nil, broken }
	c.contenders[0].sample = samples(1)
	_, err = c.measure(t.Context(), options{Flags: command.Flags{Repeat: 1}}, func(string) {})
	assert.ErrorIs(t, err, broken)
	assert.ErrorContains(t, err, "second: ")
}

func TestMedianOfAnEvenNumber(t *testing.T) {
	assert.InDelta(t, 2.5, median([][]float64{{4}, {1}, {2}, {3}}, 0), 0)
}
