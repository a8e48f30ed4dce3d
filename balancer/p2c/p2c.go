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
// Four differences, each for a case in which common implementations do badly:
//   - With four endpoints or fewer all are compared. Best of two cannot do well when two
//     of four are slow: a sixth of all pairs has no good one.
//   - The estimate of an endpoint survives reconnections, and the flapping of one endpoint
//     does not reset the estimates of the others.
//   - A failed call counts as one that took a second or more. Otherwise an endpoint that
//     fails at once would be the fastest and get all calls.
//   - A new or re-admitted endpoint starts at the mean of the others, so that it is neither
//     avoided nor flooded.
//
// The package's test compares these with round robin in virtual time. It prints a table
// with
//
//	go test -run TestScenarios -v github.com/quorate/quorate/balancer/p2c
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
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/balancer/roundrobin"
)

const (
	// compareAll is the largest number of endpoints that are all compared.
	compareAll = 4

	// failure is the minimum latency recorded for a failed call: more than nearly any
	// call takes, so that a failing endpoint is the last choice. It decays to 10 ms after
	// 46 seconds; then a call tries the endpoint.
	failure = time.Second

	// longest is the maximum latency recorded for a call. A call that waited on purpose
	// thus keeps its endpoint unused for about a minute, not for hours.
	longest = 10 * time.Second

	// unproven is the estimate for an endpoint whose first response is outstanding, and
	// the minimum if the first call was given up, so that it gets no further calls.
	unproven = 100 * time.Millisecond

	// least is the minimum estimate. Where estimates are missing or fully decayed, the
	// in-flight calls decide.
	least = time.Microsecond
)

// Builder builds the strategy "p2c". It has no configuration of its own.
var Builder = balancer.Builder{
	Name:  "p2c",
	Build: func(serviceconfig.LoadBalancingConfig) balancer.Strategy { return newStrategy() },
}

type strategy struct {
	rotation *roundrobin.Rotation
	began    time.Time

	now    func() time.Time
	random func(n int) int // at least 0, less than n
	record func(*balancer.Endpoint) *record
}

// record is the state of one endpoint.
type record struct {
	latency estimate
	turn    roundrobin.Turn
}

var (
	_ balancer.Strategy = (*strategy)(nil)
	_ balancer.Attacher = (*strategy)(nil)
	_ balancer.Learner  = (*strategy)(nil)
	_ balancer.Forgiver = (*strategy)(nil)
)

func newStrategy() *strategy { return build(time.Now, rand.IntN, remembered) }

func build(now func() time.Time, random func(int) int, recordOf func(*balancer.Endpoint) *record) *strategy {
	return &strategy{
		rotation: roundrobin.NewRotation(func(ep *balancer.Endpoint) *roundrobin.Turn {
			if rec := recordOf(ep); rec != nil {
				return &rec.turn
			}
			return nil
		}),
		began: now(), now: now, random: random, record: recordOf,
	}
}

func remembered(ep *balancer.Endpoint) *record {
	rec, _ := ep.Memory().(*record)
	return rec
}

func (*strategy) Attach(*balancer.Endpoint) any { return new(record) }

func (s *strategy) Pick(call balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint {
	n := len(fit)
	switch {
	case n == 1:
		return fit[0]
	case call.Conn == balancer.Streams:
		return s.rotation.Next(fit)
	case n <= compareAll:
		return s.cheapest(fit)
	}
	a, b := s.random(n), s.random(n-1)
	if b >= a {
		b++
	}
	at := s.instant()
	if s.cost(fit[b], fit, at) < s.cost(fit[a], fit, at) {
		return fit[b]
	}
	return fit[a]
}

// cheapest compares all of fit. It starts at a random one, so that equals are equally
// likely.
func (s *strategy) cheapest(fit []*balancer.Endpoint) *balancer.Endpoint {
	n, at := len(fit), s.instant()
	begin := s.random(n)
	best := fit[begin]
	lowest := s.cost(best, fit, at)
	for i := 1; i < n; i++ {
		ep := fit[(begin+i)%n]
		if c := s.cost(ep, fit, at); c < lowest {
			best, lowest = ep, c
		}
	}
	return best
}

// cost is the estimated time of a call to ep, in nanoseconds: its latency times in-flight
// calls plus one, divided by its weight, so that twice the weight allows twice the
// in-flight calls.
func (s *strategy) cost(ep *balancer.Endpoint, fit []*balancer.Endpoint, at instant) float64 {
	latency, inFlight := float64(least), ep.InFlight()
	if rec := s.record(ep); rec != nil {
		latency = rec.latency.at(at)
		if latency == 0 {
			latency = s.unknownCost(fit, inFlight, at)
		}
	}
	return max(latency, float64(least)) * float64(inFlight+1) / float64(ep.Weight())
}

// unknownCost returns the estimate for an endpoint without a known latency.
func (s *strategy) unknownCost(fit []*balancer.Endpoint, inFlight int, at instant) float64 {
	if inFlight == 0 {
		if mean := s.mean(fit, at); mean > 0 {
			return min(mean, float64(unproven))
		}
	}
	return float64(unproven)
}

// mean returns the mean of the known latencies of fit, 0 if there are none. It is the
// harmonic mean, so that one failing endpoint does not dominate the estimate of a new
// one.
func (s *strategy) mean(fit []*balancer.Endpoint, at instant) float64 {
	var known, speeds float64
	for _, ep := range fit {
		rec := s.record(ep)
		if rec == nil {
			continue
		}
		if latency := rec.latency.at(at); latency > 0 {
			known++
			speeds += 1 / max(latency, float64(least))
		}
	}
	if known == 0 {
		return 0
	}
	return known / speeds
}

func (s *strategy) Done(ep *balancer.Endpoint, r balancer.Result) {
	rec := s.record(ep)
	if rec == nil {
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
		rec.latency.observe(float64(took), s.instant())
	default: // given up: the response takes at least this long
		rec.latency.begin(float64(max(took, unproven)), s.instant())
		rec.latency.raise(float64(took), s.instant())
	}
}

// Restored discards the endpoint's estimate from before its ejection.
func (s *strategy) Restored(ep *balancer.Endpoint) {
	if rec := s.record(ep); rec != nil {
		rec.latency.forget()
	}
}

func (s *strategy) instant() instant { return instant(s.now().Sub(s.began).Milliseconds()) }
