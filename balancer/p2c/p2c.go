// Package p2c is the strategy "p2c": of two endpoints drawn at random each call goes to
// the one that promises the sooner answer. What an endpoint promises is its peak EWMA, a
// latency that jumps up at once and comes down slowly, times the calls in flight to it
// and one. That finds a slow endpoint within a few calls and leaves it alone, and no
// stampede of clients follows the fastest one.
//
// There is one connection to every endpoint.
//
// # What is different here
//
// Four things, each for a case in which the usual implementations do badly:
//   - With four endpoints or fewer all are compared. Best of two cannot do well when two
//     of four are slow: a sixth of all pairs has no good one.
//   - What is known of an endpoint is kept for as long as the endpoint is, whatever
//     happens to its connections. One that flaps does not make the others strangers.
//   - A call that fails counts as one of at least a second. An endpoint that fails at
//     once is otherwise the fastest of all, and gets everything.
//   - An endpoint that is new, or was shown not to serve and is back, starts at the mean of
//     the others: neither feared nor flooded.
//
// The test of the package measures these in virtual time, against round robin. It prints
// its table with
//
//	go test -run TestScenarios -v github.com/quorate/quorate/balancer/p2c
//
// # When not to use it
//
// A latency is compared with latencies of other calls, whatever they were. Where few
// calls take a hundred times as long as most, as reports and long polls do, those decide
// who looks slow; give them another connection class ([balancer.Bulk], [balancer.Streams]) or use
// round_robin. With less than about a call a second to each endpoint little is learnt,
// and round_robin does as well. Streams are not measured: they are given out in turn.
package p2c

import (
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/balancer/roundrobin"
)

const (
	// compareAll is up to how many endpoints all are compared.
	compareAll = 4

	// failure is the least that a failed call counts as: more than nearly any call takes,
	// so that an endpoint that fails is the worst choice there is. It has come down to
	// that of one that answers in 10 ms after 46 seconds; then a call tries it.
	failure = time.Second

	// longest is the most that a call counts as. One call that waited on purpose keeps an
	// endpoint from being used for a minute or so, and not for hours.
	longest = 10 * time.Second

	// unproven is what an endpoint is thought to take whose first answer is not here yet,
	// and the least if the first call was given up, so that it is not given more calls.
	unproven = 100 * time.Millisecond

	// least is the least that an endpoint is thought to take. Where nothing is known, or
	// what was known is long ago, the calls in flight decide.
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

// record is what is kept for an endpoint.
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

// cheapest compares all of fit. It begins anywhere: equals are to be equally likely.
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

// cost is the time that a call to ep may take, in nanoseconds: that of one call, for each
// that is in flight and for this one; by its weight, so that one of twice the weight may
// have twice as many in flight.
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

// unknownCost returns what an endpoint of which nothing is known is thought to take.
func (s *strategy) unknownCost(fit []*balancer.Endpoint, inFlight int, at instant) float64 {
	if inFlight == 0 {
		if mean := s.mean(fit, at); mean > 0 {
			return min(mean, float64(unproven))
		}
	}
	return float64(unproven)
}

// mean returns what those of fit of which something is known take on average, 0 if there
// are none. It is the harmonic mean, that of their speeds, so that one endpoint that
// fails does not make a new one look as if it did.
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
		// How long it took says what it was, and not how the endpoint is.
	case r.Answered:
		rec.latency.observe(float64(took), s.instant())
	default: // given up: the answer takes at least so long
		rec.latency.begin(float64(max(took, unproven)), s.instant())
		rec.latency.raise(float64(took), s.instant())
	}
}

// Restored forgets how long calls took that hung or failed with the endpoint.
func (s *strategy) Restored(ep *balancer.Endpoint) {
	if rec := s.record(ep); rec != nil {
		rec.latency.forget()
	}
}

func (s *strategy) instant() instant { return instant(s.now().Sub(s.began).Milliseconds()) }
