package p2c

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// seeds is how many runs a figure is made of: 60,000 calls, of which 60 are above the
// 99.9th percentile.
const seeds = 3

// figure is one number that a run comes to.
type figure struct {
	name string
	of   func(outcome) float64
}

var (
	p99    = figure{"p99, ms", func(o outcome) float64 { return o.percentile(99) }}
	p999   = figure{"p99.9, ms", func(o outcome) float64 { return o.percentile(99.9) }}
	failed = figure{"failed, %", func(o outcome) float64 { return o.failed() }}
)

// expected are reference figures, of round robin and of p2c. They are of single runs, of
// 20,000 calls each, of an implementation apart from this one. What the names of the
// scenarios leave open, as how cold a cold server is and how often a flapping one flaps,
// was chosen here so that round robin comes to its reference.
type expected struct {
	figure
	roundRobin, p2c float64
	// most is what p2c may come to, if that is not its reference and the tolerance.
	most float64
}

// A p99.9 of 20,000 calls is decided by 20 of them: two runs of the same thing differ by
// a tenth or more. Here p2c does the same in every run of the test; round robin begins
// anywhere, and so does not.
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

// onceEach is the share of calls that fail, in percent, if each client finds out about a
// failing endpoint by one call and makes no other to it. A strategy that tries every
// endpoint cannot do with less.
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

// slow has some servers take longer than healthy ones, by a factor.
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

// stalling has a server take 100 times as long for the third of every five seconds.
func stalling(which int) func(int, time.Duration) time.Duration {
	return func(server int, at time.Duration) time.Duration {
		if server == which && at%(5*time.Second)/time.Second == 2 {
			return 100 * healthy
		}
		return healthy
	}
}

// flapping has a server come and go twice a second.
func flapping(which int) func(int, time.Duration) bool {
	return func(server int, at time.Duration) bool {
		return server != which || at/(250*time.Millisecond)%2 == 0
	}
}

// joining has a server that is not there before a moment.
func joining(which int, from time.Duration) func(int, time.Duration) bool {
	return func(server int, at time.Duration) bool { return server != which || at >= from }
}
