package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// measurement is a table: contenders that do the same thing, and what is measured of it.
type measurement struct {
	name  string
	about string
	// metrics are the columns.
	metrics []metric
	// contenders are the rows. The first is what the others are compared with.
	contenders []contender
	// long and short are for how long a sample is taken.
	long, short time.Duration
}

// metric is a number that is measured.
type metric struct {
	name   string
	format func(float64) string
}

// contender is one way to do what a case is about.
type contender struct {
	name string
	// sample does it for a time, and returns a value for each metric.
	sample func(ctx context.Context, d time.Duration) ([]float64, error)
	// target is what the first metric's ratio is held to; nil if it is not.
	target *target
}

// target is a bound for the ratio of a metric.
type target struct {
	metric int
	bound  float64
	least  bool // rather than most
}

// row is what was measured of a contender: the medians, and their ratios to those of the
// first.
type row struct {
	medians, ratios []float64
}

func cases() []measurement {
	return []measurement{limited(), unlimited(), mixed("upload", upload), mixed("download", download), lending(), trying(), lookingAtAll(), contended()}
}

// measure samples the contenders in turn, so that what else happens on the machine hits
// all of them.
func (c measurement) measure(ctx context.Context, opts options, progress func(string)) ([]row, error) {
	d := c.long
	if opts.Short {
		d = c.short
	}
	samples := make([][][]float64, len(c.contenders))
	for round := range opts.Repeat {
		for i, contender := range c.contenders {
			progress(fmt.Sprintf("%s: %s, %d of %d", c.name, contender.name, round+1, opts.Repeat))
			values, err := contender.sample(ctx, d)
			if err = errors.Join(err, ctx.Err()); err != nil {
				return nil, fmt.Errorf("%s: %w", contender.name, err)
			}
			samples[i] = append(samples[i], values)
		}
	}
	rows := make([]row, len(c.contenders))
	for i := range rows {
		for m := range c.metrics {
			rows[i].medians = append(rows[i].medians, median(samples[i], m))
			rows[i].ratios = append(rows[i].ratios, rows[i].medians[m]/rows[0].medians[m])
		}
	}
	return rows, nil
}

func median(samples [][]float64, m int) float64 {
	values := make([]float64, 0, len(samples))
	for _, s := range samples {
		values = append(values, s[m])
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 0 {
		return (values[middle-1] + values[middle]) / 2
	}
	return values[middle]
}
