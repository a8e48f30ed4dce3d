package p2c

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
)

// seeds is the number of runs of a scenario: 60,000 calls, of which 60 are above the 99.9th
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
func TestSimulatedScenarios(t *testing.T) {
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

// The simulation: clients that each make a call at even intervals, rate times a second, of
// servers that work on any number of calls at once. It runs in virtual time, and the same
// seed gives the same run of p2c.
const (
	clients = 10
	rate    = 200
	gap     = time.Second / rate
	length  = 10 * time.Second
	healthy = 5 * time.Millisecond
)

// scenario says how servers behave.
type scenario struct {
	servers int
	// mean is that of the exponentially distributed time that a call takes which begins
	// at a moment; nil means that all are healthy.
	mean func(server int, at time.Duration) time.Duration
	// fails says that a server fails calls, each after 0.2 ms. It may be nil.
	fails func(server int) bool
	// present says that a server can be used. It may be nil; it is asked every tick.
	present func(server int, at time.Duration) bool
}

const (
	tick        = 50 * time.Millisecond
	failingTime = 200 * time.Microsecond
)

// outcome is the result of the calls of some runs.
type outcome struct {
	took            []time.Duration // of those that succeeded, sorted
	calls, failures int
}

// percentile returns that of the latencies of the calls that succeeded, in milliseconds.
func (o outcome) percentile(p float64) float64 {
	return o.took[int(float64(len(o.took)-1)*p/100)].Seconds() * 1000
}

func (o outcome) failed() float64 { return 100 * float64(o.failures) / float64(o.calls) }

// simulate runs a scenario once for each of the seeds, and returns the outcome of all calls.
func simulate(sc scenario) outcome {
	var all outcome
	for seed := range seeds {
		s := newSimulation(sc, uint64(seed))
		s.run()
		all.took = append(all.took, s.took...)
		all.calls += s.calls
		all.failures += s.failures
	}
	slices.Sort(all.took)
	return all
}

// simulation is one run.
type simulation struct {
	scenario
	rng     *rand.Rand
	elapsed time.Duration
	queue   []scheduled // the next one last
	clients []*client
	outcome
}

type client struct {
	strategy *strategy
	all, fit []*balancer.Endpoint
}

var epoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *simulation) now() time.Time { return epoch.Add(s.elapsed) }

func newSimulation(sc scenario, seed uint64) *simulation {
	s := &simulation{scenario: sc, rng: rand.New(rand.NewPCG(seed, 1))}
	for range clients {
		c := &client{strategy: build(s.now, s.rng.IntN)}
		for server := range sc.servers {
			c.all = append(c.all, balancer.Detached(string(rune('a'+server)), nil, c.strategy.Attach(nil)))
		}
		s.clients = append(s.clients, c)
		s.after(time.Duration(s.rng.Int64N(int64(gap))), func() { s.arrive(c) })
	}
	s.refit()
	return s
}

// run goes on until no client makes calls any more, and the last one has ended.
func (s *simulation) run() {
	for len(s.queue) > 0 {
		last := len(s.queue) - 1
		next := s.queue[last]
		s.queue, s.elapsed = s.queue[:last], next.at
		next.do()
	}
}

func (s *simulation) after(d time.Duration, do func()) {
	at := s.elapsed + d
	i, _ := slices.BinarySearchFunc(s.queue, at, func(a scheduled, at time.Duration) int { return cmp.Compare(at, a.at) })
	s.queue = slices.Insert(s.queue, i, scheduled{at, do})
}

// refit gives every client the endpoints that are present, in a new slice as the policy
// does, and comes back after a tick.
func (s *simulation) refit() {
	for _, c := range s.clients {
		c.fit = nil
		for server, ep := range c.all {
			if s.present == nil || s.present(server, s.elapsed) {
				c.fit = append(c.fit, ep)
			}
		}
	}
	if s.present != nil && s.elapsed < length {
		s.after(tick, s.refit)
	}
}

// arrive makes a call, and comes back for the client's next.
func (s *simulation) arrive(c *client) {
	if s.elapsed >= length {
		return
	}
	s.after(gap, func() { s.arrive(c) })
	call := balancer.Call{Method: "/test/Call", Shape: "/test/Call"}
	ep := c.strategy.Pick(call, c.fit)
	r := s.serve(slices.Index(c.all, ep))
	r.Call = call
	ep.AddInFlight(1)
	s.after(r.Took, func() {
		ep.AddInFlight(-1)
		s.calls++
		if r.Failed {
			s.failures++
		} else {
			s.took = append(s.took, r.Took)
		}
		c.strategy.Done(ep, r)
	})
}

func (s *simulation) serve(server int) balancer.Result {
	if s.fails != nil && s.fails(server) {
		return balancer.Result{Took: failingTime, Err: status.Error(codes.Unavailable, "broken"), Answered: true, Failed: true}
	}
	mean := healthy
	if s.mean != nil {
		mean = s.mean(server, s.elapsed)
	}
	return balancer.Result{Took: time.Duration(s.rng.ExpFloat64() * float64(mean)), Answered: true}
}

// scheduled is an event that will happen.
type scheduled struct {
	at time.Duration
	do func()
}
