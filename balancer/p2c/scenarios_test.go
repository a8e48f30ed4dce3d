package p2c

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// seeds is the number of runs of a figure: 60,000 calls, of which 60 are above the 99.9th
// percentile.
const seeds = 3

// figure is one result of a run.
type figure string

const (
	p99    figure = "p99, ms"
	p999   figure = "p99.9, ms"
	failed figure = "failed, %"
)

func (f figure) of(o outcome) float64 {
	switch f {
	case p99:
		return o.percentile(99)
	case p999:
		return o.percentile(99.9)
	default:
		return o.failed()
	}
}

// tolerance is how much worse than its reference a figure may be: 20 calls decide a p99.9 of 20,000. The references are
// from single runs of 20,000 calls each of a separate implementation.
const tolerance = 1.15

// onceEach is the share of failing calls, in percent, if each client detects a failing endpoint by
// one call and makes no other to it. A strategy that tries every endpoint cannot be better.
const onceEach = 100.0 * clients / (clients * rate * float64(length/time.Second))

// What callers see where some of the servers are slow, fail, flap, stall or join.
func TestScenarios(t *testing.T) {
	for name, tc := range map[string]struct {
		scenario
		most map[figure]float64
	}{
		"ten equal":                  {scenario{servers: 10}, map[figure]float64{p99: 22.8 * tolerance}},
		"one of ten is 10x slow":     {scenario{servers: 10, mean: slow(10, first(1))}, map[figure]float64{p99: 23 * tolerance, p999: 44 * tolerance}},
		"and another one flaps":      {scenario{servers: 10, mean: slow(10, first(1)), present: flapping(1)}, map[figure]float64{p999: 45 * tolerance}},
		"one of ten fails in 0.2 ms": {scenario{servers: 10, fails: first(1)}, map[figure]float64{failed: onceEach}},
		"one of two fails in 0.2 ms": {scenario{servers: 2, fails: first(1)}, map[figure]float64{failed: onceEach}},
		"an 11th joins at 5 s, cold, 20x slow": {
			scenario{servers: 11, mean: slow(20, last(11)), present: joining(10, 5*time.Second)}, map[figure]float64{p999: 37 * tolerance},
		},
		"one of ten stalls, 100x slow, 1 s of each 5 s": {scenario{servers: 10, mean: stalling(0)}, map[figure]float64{p999: 36 * tolerance}},
		"two of four are 10x slow":                      {scenario{servers: 4, mean: slow(10, first(2))}, map[figure]float64{p99: 26 * tolerance}},
	} {
		t.Run(name, func(t *testing.T) {
			all := simulate(tc.scenario)
			for f, most := range tc.most {
				assert.LessOrEqual(t, f.of(all), most, f)
			}
		})
	}
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
