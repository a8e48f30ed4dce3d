package calls

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/lab/bench/internal/cputime"
	"github.com/quorate/quorate/lab/internal/stats"
)

// sample is what one turn of a client shows: calls a second, and CPU time in nanoseconds and allocations of a call in this
// process.
type sample struct{ rate, cpu, allocs float64 }

// measurement is what the rounds of one case have shown.
type measurement struct {
	operation operation
	callers   int
	clients   []client
	samples   map[string][]sample // by client, one of each round
}

func newMeasurement(clients []client, o operation, callers int) *measurement {
	return &measurement{o, callers, clients, make(map[string][]sample)}
}

// round gives each client a turn.
func (m *measurement) round(tb testing.TB, length time.Duration) {
	for _, i := range rand.Perm(len(m.clients)) {
		c := m.clients[i]
		m.samples[c.name] = append(m.samples[c.name], m.turn(tb, length, c.of(m.operation)))
	}
}

func (m *measurement) rounds() int { return len(m.samples[m.clients[0].name]) }

// turn lets callers make calls for a time, at least one each.
func (m *measurement) turn(tb testing.TB, length time.Duration, do call) sample {
	var done atomic.Int64
	var all sync.WaitGroup
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, used := time.Now(), cputime.Used()
	for caller := range m.callers {
		all.Go(func() {
			ctx, cancel := context.WithCancel(tb.Context())
			defer cancel()
			n := 0
			for n == 0 || (time.Since(began) < length && n != m.operation.most) {
				if err := do(ctx, caller); err != nil {
					tb.Error(err)
					break
				}
				n++
			}
			done.Add(int64(n))
		})
	}
	all.Wait()
	took := time.Since(began)
	used = cputime.Used() - used
	runtime.ReadMemStats(&after)
	n := float64(done.Load())
	return sample{n / took.Seconds(), float64(used) / n, float64(after.Mallocs-before.Mallocs) / n}
}

// of returns a value of the samples of a client.
func (m *measurement) of(client string, value func(sample) float64) stats.Quartiles {
	values := make([]float64, 0, m.rounds())
	for _, s := range m.samples[client] {
		values = append(values, value(s))
	}
	return stats.Of(values)
}

// pairs returns a value of the samples of a client and of another in the same round, in which both met the same other
// work of the machine.
func (m *measurement) pairs(client, other string, value func(s, o sample) float64) stats.Quartiles {
	values := make([]float64, 0, m.rounds())
	for i, s := range m.samples[client] {
		values = append(values, value(s, m.samples[other][i]))
	}
	return stats.Of(values)
}

func (m *measurement) rate(client string) stats.Quartiles {
	return m.of(client, func(s sample) float64 { return s.rate })
}

func (m *measurement) times(client, other string) stats.Quartiles {
	return m.pairs(client, other, func(s, o sample) float64 { return s.rate / o.rate })
}

func (m *measurement) timesCPU(client, other string) stats.Quartiles {
	return m.pairs(client, other, func(s, o sample) float64 { return s.cpu / o.cpu })
}

func (m *measurement) addedCPU(client, other string) stats.Quartiles {
	return m.pairs(client, other, func(s, o sample) float64 { return s.cpu - o.cpu })
}

func (m *measurement) addedAllocs(client, other string) stats.Quartiles {
	return m.pairs(client, other, func(s, o sample) float64 { return s.allocs - o.allocs })
}
