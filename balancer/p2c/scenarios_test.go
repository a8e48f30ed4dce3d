package p2c

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// seeds is the number of runs of a figure: 60,000 calls, of which 60 are above the 99.9th
// percentile.
const seeds = 3

// figure is one result of a run.
type figure struct {
	name string
	of   func(outcome) float64
}

var (
	p99    = figure{"p99, ms", func(o outcome) float64 { return o.percentile(99) }}
	p999   = figure{"p99.9, ms", func(o outcome) float64 { return o.percentile(99.9) }}
	failed = figure{"failed, %", func(o outcome) float64 { return o.failed() }}
)

// expected are reference figures of round robin and p2c. They are from single runs of 20,000 calls
// each of a separate implementation. Parameters that the scenarios leave open, such as how slow a
// cold server is, are chosen such that round robin matches its reference.
type expected struct {
	figure
	roundRobin, p2c float64
	// most is the maximum for p2c if that is not its reference plus the tolerance.
	most float64
}

// 20 calls decide a p99.9 of 20,000 calls: two runs of the same scenario differ by a tenth or
// more. Here p2c is the same in every run of the test; round robin starts at random, so it is not.
const (
	tolerance = 0.15
	roughly   = 0.25
)

func (e expected) limit() float64 {
	if e.most != 0 {
		return e.most
	}
	return e.p2c * (1 + tolerance)
}

// onceEach is the share of failing calls, in percent, if each client detects a failing endpoint by
// one call and makes no other to it. A strategy that tries every endpoint cannot be better.
const onceEach = 100.0 * clients / (clients * rate * float64(length/time.Second))

// TestScenarios measures the strategy beside round robin. Run it with -v for the table.
func TestScenarios(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "%-49s %-9s %21s %21s\n", "", "", "round robin", "p2c")
	fmt.Fprintf(&table, "%-49s %-9s %10s %10s %10s %10s\n", "", "", "here", "reference", "here", "reference")
	for _, tc := range []struct {
		name string
		scenario
		expected []expected
	}{
		{"S0 ten equal", scenario{servers: 10}, []expected{{figure: p99, roundRobin: 22.8, p2c: 22.8}}},
		{
			"S1 one of ten is 10x slow",
			scenario{servers: 10, mean: slow(10, first(1))},
			[]expected{{figure: p99, roundRobin: 118, p2c: 23}, {figure: p999, roundRobin: 252, p2c: 44}},
		},
		{
			"S2 as S1, and another one flaps",
			scenario{servers: 10, mean: slow(10, first(1)), present: flapping(1)},
			[]expected{{figure: p999, roundRobin: 231, p2c: 45}},
		},
		{
			"S3 one of ten fails in 0.2 ms",
			scenario{servers: 10, fails: first(1)},
			[]expected{{figure: failed, roundRobin: 10, p2c: 0.03, most: onceEach}},
		},
		{
			"S3 one of two fails in 0.2 ms",
			scenario{servers: 2, fails: first(1)},
			[]expected{{figure: failed, roundRobin: 50, p2c: 0.05, most: onceEach}},
		},
		{
			"S4 an 11th joins at 5 s, cold, 20x slow",
			scenario{servers: 11, mean: slow(20, last(11)), present: joining(10, 5*time.Second)},
			[]expected{{figure: p999, roundRobin: 370, p2c: 37}},
		},
		{
			"S5 one of ten stalls, 100x slow, 1 s of each 5 s",
			scenario{servers: 10, mean: stalling(0)},
			[]expected{{figure: p999, roundRobin: 1562, p2c: 36}},
		},
		{"S6 two of four are 10x slow", scenario{servers: 4, mean: slow(10, first(2))}, []expected{{figure: p99, roundRobin: 195, p2c: 26}}},
	} {
		roundRobin, ours := simulate(tc.scenario, roundRobinIn), simulate(tc.scenario, p2cIn)
		for _, want := range tc.expected {
			rr, p2c := want.of(roundRobin), want.of(ours)
			fmt.Fprintf(&table, "%-49s %-9s %10.4g %10.4g %10.3g %10.3g\n", tc.name, want.name, rr, want.roundRobin, p2c, want.p2c)
			assert.InEpsilon(t, want.roundRobin, rr, roughly, "%s, %s of round robin: the simulation is not that of the reference", tc.name, want.name)
			assert.LessOrEqual(t, p2c, want.limit(), "%s, %s of p2c", tc.name, want.name)
		}
	}
	t.Log("\n" + table.String())
}

// slow makes some servers slower than healthy ones by a factor.
func slow(factor time.Duration, is func(server int) bool) func(int, time.Duration) time.Duration {
	return func(server int, _ time.Duration) time.Duration {
		if is(server) {
			return factor * healthy
		}
		return healthy
	}
}

func first(n int) func(int) bool { return func(server int) bool { return server < n } }
func last(n int) func(int) bool  { return func(server int) bool { return server == n-1 } }

// stalling makes a server 100 times as slow for the third of every five seconds.
func stalling(which int) func(int, time.Duration) time.Duration {
	return func(server int, at time.Duration) time.Duration {
		if server == which && at%(5*time.Second)/time.Second == 2 {
			return 100 * healthy
		}
		return healthy
	}
}

// flapping makes a server fail and recover twice a second.
func flapping(which int) func(int, time.Duration) bool {
	return func(server int, at time.Duration) bool {
		return server != which || at/(250*time.Millisecond)%2 == 0
	}
}

// joining adds a server at a given time.
func joining(which int, from time.Duration) func(int, time.Duration) bool {
	return func(server int, at time.Duration) bool { return server != which || at >= from }
}
