// Package p2c is the strategy "p2c" (power of two choices): each call goes to the cheaper
// of two endpoints drawn at random. The cost of an endpoint is its peak EWMA, a latency
// estimate that rises at once and decays slowly, times its in-flight calls plus one. A
// slow endpoint is detected within a few calls and avoided, and clients do not all follow
// the fastest one.
//
// The policy connects to every endpoint.
//
// # Differences from other implementations
//
// Six differences, each for a case in which common implementations do badly:
//   - With four endpoints or fewer all are compared. Best of two cannot do well when two
//     of four are slow: a sixth of all pairs has no good one.
//   - Costs within a tenth of the lowest count as equal, and so do latencies below a
//     millisecond. Among equals the choice is random. Otherwise the calls of one caller would
//     all go to the endpoint that is faster by a few microseconds.
//   - A single latency of up to 4 ms does not count, only the second in a row, and estimates below
//     50 ms decay faster than others: otherwise one call that was late by chance would keep its
//     endpoint unused for seconds.
//   - The estimate of an endpoint survives reconnections, and the flapping of one endpoint
//     does not reset the estimates of the others.
//   - A failed call counts as one that took a second or more. Otherwise an endpoint that
//     fails at once would be the fastest and get all calls.
//   - A new or re-admitted endpoint starts at the mean of the others, so that it is neither
//     avoided nor flooded. Calls that began before the re-admission do not count.
//
// The package's test compares these with round robin in virtual time. It prints a table
// with
//
//	go test -run TestSimulatedScenarios -v github.com/quorate/quorate/balancer/p2c
//
// # When not to use it
//
// All calls of a class are compared with each other. Where a few calls take a hundred times as
// long as most, as reports and long polls do, they make any endpoint seem slow; give them another
// connection class ([balancer.Bulk], [balancer.Streams]) or use round_robin. With less than about
// one call per second to each endpoint the estimates are poor, and round_robin does as well.
// Streams are not measured and go to the endpoints in turn.
package p2c

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/balancer/roundrobin"
)

const (
	// compareAll is the largest number of endpoints that are all compared.
	compareAll = 4

	// meanOf is the largest number of endpoints whose mean is taken: a pick costs the same with
	// more.
	meanOf = 16

	// failure is the minimum latency recorded for a failed call: more than nearly any
	// call takes, so that a failing endpoint is the last choice. It decays to 10 ms in
	// 46 seconds: then a call tries the endpoint if the others take 10 ms.
	failure = time.Second

	// longest is the maximum latency recorded for a call. A call that waited on purpose
	// thus keeps its endpoint unused for about a minute, not for hours.
	longest = 10 * time.Second

	// unproven is the estimate for an endpoint whose first response is outstanding, and
	// the minimum if the first call was given up, so that it gets no further calls.
	unproven = 100 * time.Millisecond

	// least is the minimum estimate. Lower latencies differ by chance more than by endpoint.
	// Where estimates are that low, missing, or fully decayed, the in-flight calls decide.
	least = time.Millisecond

	// band is how much higher than the lowest a cost may be to count as equal.
	band = 1.1

	// byChance is what a single call may take without effect, as when the machine is busy for a moment.
	byChance = 4 * least

	// A slow endpoint is suspected, and re-admitted when it answers a probe, again and again:
	// its estimate is discarded at most once in restoreAfter, twice as long each time, up to
	// maxRestore.
	restoreAfter = time.Second
	maxRestore   = time.Minute
)

// Builder builds the strategy "p2c". It has no configuration of its own.
var Builder = balancer.Builder{
	Name:  "p2c",
	Build: func(serviceconfig.LoadBalancingConfig) balancer.Strategy { return build(time.Now, rand.IntN) },
}

type strategy struct {
	rotation *roundrobin.Rotation
	began    time.Time

	now    func() time.Time
	random func(n int) int // at least 0, less than n
}

// record is the state of one endpoint.
type record struct {
	latency estimate
	higher  atomic.Bool // the latest call took longer than the estimate, by chance perhaps
	turn    roundrobin.Turn

	restored atomic.Int64  // when the estimate was discarded, in nanoseconds since the strategy was built
	mu       sync.Mutex    // guards wait and writes of restored
	wait     time.Duration // until it may be discarded again
}

var (
	_ balancer.Strategy = (*strategy)(nil)
	_ balancer.Attacher = (*strategy)(nil)
	_ balancer.Learner  = (*strategy)(nil)
	_ balancer.Restorer = (*strategy)(nil)
)

func build(now func() time.Time, random func(int) int) *strategy {
	return &strategy{rotation: roundrobin.NewRotation(turnOf), began: now(), now: now, random: random}
}

func recordOf(ep *balancer.Endpoint) *record {
	rec, _ := ep.Memory().(*record)
	return rec
}

func turnOf(ep *balancer.Endpoint) *roundrobin.Turn {
	if rec := recordOf(ep); rec != nil {
		return &rec.turn
	}
	return nil
}

func (*strategy) Attach(*balancer.Endpoint) any { return new(record) }

func (s *strategy) Pick(call balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint {
	n := len(fit)
	if n == 1 {
		return fit[0]
	}
	var turn *balancer.Endpoint
	if call.Conn == balancer.Streams || fit[0].Weighted() {
		turn = s.rotation.Next(fit)
	}
	switch {
	case call.Conn == balancer.Streams:
		return turn
	case n <= compareAll:
		return s.cheapest(fit, fit, turn)
	case turn != nil:
		other := s.random(n)
		if fit[other] == turn {
			other = (other + 1) % n
		}
		return s.cheapest([]*balancer.Endpoint{turn, fit[other]}, fit, turn)
	}
	a, b := s.random(n), s.random(n-1)
	if b >= a {
		b++
	}
	return s.cheapest([]*balancer.Endpoint{fit[a], fit[b]}, fit, nil)
}

// cheapest returns one of the candidates whose cost is the lowest or within the band above it: turn if it is
// one of them, else any.
func (s *strategy) cheapest(candidates, fit []*balancer.Endpoint, turn *balancer.Endpoint) *balancer.Endpoint {
	var costs [compareAll]float64
	var weights uint32
	for _, ep := range candidates {
		weights += ep.Weight()
	}
	at, lowest := s.instant(), math.Inf(1)
	for i, ep := range candidates {
		share := float64(ep.Weight()) * float64(len(candidates)) / float64(weights)
		costs[i] = s.cost(ep, share, fit, at)
		lowest = min(lowest, costs[i])
	}
	equal, chosen := 0, 0
	for i, ep := range candidates {
		if costs[i] <= band*lowest {
			if ep == turn {
				return ep
			}
			equal++
			if s.random(equal) == 0 {
				chosen = i
			}
		}
	}
	return candidates[chosen]
}

// cost is the estimated time of a call to ep, in nanoseconds: its latency times in-flight
// calls plus one. The calls are divided by the share, which is 1 for the mean weight, so that
// twice the weight allows twice the in-flight calls, and counts for nothing while there are none.
func (s *strategy) cost(ep *balancer.Endpoint, share float64, fit []*balancer.Endpoint, at instant) float64 {
	latency, inFlight := float64(least), ep.InFlight()
	if rec := recordOf(ep); rec != nil {
		latency = rec.latency.at(at)
		if latency == 0 {
			latency = s.unknownLatency(fit, inFlight, at)
		}
	}
	return max(latency, float64(least)) * (float64(inFlight)/share + 1)
}

// unknownLatency returns the estimate for an endpoint without a known latency.
func (s *strategy) unknownLatency(fit []*balancer.Endpoint, inFlight int, at instant) float64 {
	if inFlight > 0 {
		return float64(unproven)
	}
	return min(s.mean(fit, at), float64(unproven))
}

// mean returns the mean of the known latencies of fit, or of some of many; infinity if there are none.
// It is the harmonic mean, so that one failing endpoint does not dominate the estimate of a new
// one.
func (s *strategy) mean(fit []*balancer.Endpoint, at instant) float64 {
	if n := len(fit); n > meanOf {
		begin := s.random(n - meanOf + 1)
		fit = fit[begin : begin+meanOf]
	}
	var known, speeds float64
	for _, ep := range fit {
		rec := recordOf(ep)
		if rec == nil {
			continue
		}
		if latency := rec.latency.at(at); latency > 0 {
			known++
			speeds += 1 / max(latency, float64(least))
		}
	}
	return max(known, 1) / speeds
}

func (s *strategy) Done(ep *balancer.Endpoint, r balancer.Result) {
	rec := recordOf(ep)
	if rec == nil || rec.isOld(s.age()-r.Took) {
		return
	}
	took := min(max(r.Took, least), longest)
	switch {
	case r.Failed && r.Conn == balancer.Calls:
		rec.latency.observe(float64(max(took, failure)), s.instant())
	case r.Failed:
		rec.latency.raise(float64(failure), s.instant())
	case r.Conn != balancer.Calls:
		// The duration depends on the request, not on the endpoint.
	case r.Answered:
		rec.observe(float64(took), s.instant())
	default: // given up: the response takes at least this long
		rec.latency.begin(float64(max(took, unproven)), s.instant())
		rec.latency.raise(float64(took), s.instant())
	}
}

// observe records the latency of a call. A single one of a few milliseconds is often chance, and would keep
// its endpoint unused for seconds: it counts if the one before was higher than the estimate, too.
func (r *record) observe(nanos float64, at instant) {
	known := r.latency.at(at)
	higher := known > 0 && nanos < float64(byChance) && nanos > band*max(known, float64(least))
	if r.higher.Load() != higher && r.higher.CompareAndSwap(!higher, higher) && higher {
		return
	}
	r.latency.observe(nanos, at)
}

// Restored discards the endpoint's estimate from before its re-admission.
func (s *strategy) Restored(ep *balancer.Endpoint) {
	if rec := recordOf(ep); rec != nil && rec.restore(s.age()) {
		rec.latency.forget()
	}
}

// restore reports whether the estimate is to be discarded.
func (r *record) restore(now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := now - time.Duration(r.restored.Load())
	switch {
	case since < r.wait:
		return false
	case since > 2*maxRestore:
		r.wait = restoreAfter
	default:
		r.wait = min(max(2*r.wait, restoreAfter), maxRestore)
	}
	r.restored.Store(int64(now))
	return true
}

// isOld reports whether a call that began at start began before the estimate was discarded.
func (r *record) isOld(start time.Duration) bool {
	restored := time.Duration(r.restored.Load())
	return restored > 0 && start < restored
}

// age returns how long ago the strategy was built.
func (s *strategy) age() time.Duration { return s.now().Sub(s.began) }

func (s *strategy) instant() instant { return instant(s.age().Milliseconds()) }

// An estimate comes down to 1/e in decayPerLatency times itself, and in decay, Finagle's constant, at
// most: that is how long a slow endpoint is avoided. One that took 5 ms where others take 1 ms is
// tried again after 1.5 s, one that took 100 ms where others take 10 ms after 23 s.
const (
	decay           = 10 * time.Second
	decayPerLatency = 200
)

// instant is a time, in milliseconds since the strategy was built. It wraps after 49
// days; an estimate not updated for 24 days or more may count as new until the next call
// to its endpoint.
type instant uint32

// since returns the time from then to i, or 0 if then is later, which happens when
// goroutines use their clock readings out of order.
func (i instant) since(then instant) time.Duration {
	return time.Duration(max(int32(i-then), 0)) * time.Millisecond
}

// estimate is a peak EWMA of latencies in nanoseconds. The zero value is unknown.
//
// It is one word, for consistent reads without a lock: the latency, a float32, in the
// upper half, and its instant in the lower half.
type estimate struct{ word atomic.Uint64 }

func pack(nanos float64, at instant) uint64 {
	return uint64(math.Float32bits(float32(nanos)))<<32 | uint64(at)
}

func unpack(word uint64) (nanos float64, at instant) {
	return float64(math.Float32frombits(uint32(word >> 32))), instant(uint32(word))
}

// at returns the decayed latency, 0 if unknown. A known latency decays to 1 ns at least.
func (e *estimate) at(now instant) float64 {
	nanos, then := unpack(e.word.Load())
	if nanos == 0 {
		return 0
	}
	return max(nanos*weight(nanos, now.since(then)), 1)
}

// begin sets the latency if it is unknown.
func (e *estimate) begin(nanos float64, now instant) { e.word.CompareAndSwap(0, pack(nanos, now)) }

// forget makes the latency unknown.
func (e *estimate) forget() { e.word.Store(0) }

// observe records the latency of a call: a higher one replaces the estimate, a lower one
// has more weight the older the estimate is.
func (e *estimate) observe(nanos float64, now instant) {
	for {
		word := e.word.Load()
		old, then := unpack(word)
		w := weight(old, now.since(then))
		if e.word.CompareAndSwap(word, pack(max(nanos, old*w+nanos*(1-w)), latest(now, then, old))) {
			return
		}
	}
}

// raise records that the latency is at least nanos. An unknown latency stays unknown.
func (e *estimate) raise(nanos float64, now instant) {
	for {
		word := e.word.Load()
		old, then := unpack(word)
		if old == 0 || old*weight(old, now.since(then)) >= nanos {
			return
		}
		if e.word.CompareAndSwap(word, pack(nanos, latest(now, then, old))) {
			return
		}
	}
}

// latest returns the later of now and then; then counts only if the latency is known.
func latest(now, then instant, known float64) instant {
	if known != 0 && int32(now-then) < 0 {
		return then
	}
	return now
}

// weight is the weight of an estimate by its age, from 1 for a fresh one down to 0.
func weight(nanos float64, age time.Duration) float64 {
	if age == 0 {
		return 1
	}
	return math.Exp(-float64(age) / min(float64(decay), decayPerLatency*nanos))
}
