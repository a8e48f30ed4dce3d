package balancer

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// maxInspected is how many in-flight calls of one endpoint an inspection counts by method at the most.
const maxInspected = 10_000

// Inspection is a snapshot of an endpoint's work.
type Inspection struct {
	// Calls are the in-flight attempts, oldest first. ByMethod counts the oldest 10,000 by
	// method.
	Calls    []InFlight
	ByMethod map[string]int
	Streams  int
	// Connections counts those of all classes.
	Connections int
	// Work counts the attempts that have ended, by shape.
	Work []Work
	// Latency is the endpoint's smoothed latency; 0 if it has completed no work.
	Latency time.Duration
}

// InFlight is an in-flight attempt.
type InFlight struct {
	Method   string // full name
	Start    time.Time
	Deadline time.Time // the zero time for none
}

// Work counts the attempts of calls of one shape that have ended.
type Work struct {
	Shape         string
	Ended, Failed uint64
	Took          time.Duration // together
	P99           time.Duration // see health.Latency
}

// Inspect returns a snapshot of the endpoint's work, with at most limit calls.
func (e *Endpoint) Inspect(limit int) Inspection {
	in := Inspection{ByMethod: make(map[string]int), Latency: e.healthEntry().Latency(), Work: e.latency.work()}
	e.inflight.mu.Lock()
	in.Streams = len(e.inflight.streams)
	e.inflight.mu.Unlock()
	for _, s := range e.connections() {
		if s != nil && s.ready.Load() {
			in.Connections++
		}
	}
	calls := e.inflight.callsOn(nil)
	slices.SortFunc(calls, func(a, b *call) int { return cmp.Compare(a.start, b.start) })
	for i, c := range calls[:min(len(calls), maxInspected)] {
		in.ByMethod[c.method]++
		if i < limit {
			in.Calls = append(in.Calls, InFlight{Method: c.method, Start: c.start.Time(), Deadline: c.deadline()})
		}
	}
	return in
}

// Policy returns the name of the policy, as service configs have it; "" while there are no endpoints.
func (m *Monitor) Policy() string {
	if eps := m.Endpoints(); len(eps) > 0 && eps[0].policy != nil {
		return Prefix + eps[0].policy.builder.Name
	}
	return ""
}

// ProbeBudget returns how many probes the client may send now, how many it may save up, and
// how many it has sent. The first two are 0 while there are no endpoints.
func (m *Monitor) ProbeBudget() (left, limit float64, sent uint64) {
	eps := m.Endpoints()
	if len(eps) == 0 || eps[0].policy == nil {
		return 0, 0, m.probes.Load()
	}
	return eps[0].policy.prober.budget.level(time.Now()), probeBurst, m.probes.Load()
}

// ended counts the ended attempts of one shape at one endpoint.
type ended struct {
	all, failed atomic.Uint64
	took        atomic.Int64
}

func (e *ended) note(took time.Duration, err error) {
	e.all.Add(1)
	e.took.Add(int64(took))
	if err != nil {
		e.failed.Add(1)
	}
}

// work returns the ended attempts, by shape.
func (g *latencies) work() []Work {
	known := g.byShape.Load()
	if known == nil {
		return nil
	}
	all := make([]Work, 0, len(*known))
	for shape, s := range *known {
		if n := s.ended.all.Load(); n > 0 {
			all = append(all, Work{
				Shape: shape, Ended: n, Failed: s.ended.failed.Load(),
				Took: time.Duration(s.ended.took.Load()), P99: s.P99(),
			})
		}
	}
	slices.SortFunc(all, func(a, b Work) int { return cmp.Compare(a.Shape, b.Shape) })
	return all
}
