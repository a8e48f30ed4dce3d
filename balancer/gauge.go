package balancer

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/health"
)

// classes are the kinds of call that the policy has seen, and how long each takes,
// wherever it goes.
type classes struct{ byName sync.Map } // name → *health.Latency

func (c *classes) get(name string) *health.Latency {
	if l, ok := c.byName.Load(name); ok {
		return l.(*health.Latency)
	}
	l, _ := c.byName.LoadOrStore(name, new(health.Latency))
	return l.(*health.Latency)
}

// suspectAfter returns the longest time after which the silence of a call is suspicious,
// of the classes of which that is known.
func (c *classes) suspectAfter() time.Duration {
	var longest time.Duration
	c.byName.Range(func(_, l any) bool {
		if l := l.(*health.Latency); l.Learnt() {
			longest = max(longest, l.SuspectAfter())
		}
		return true
	})
	return longest
}

// gauge is what one endpoint shows of one class of calls.
type gauge struct {
	latency *health.Latency
	last    atomic.Int64 // when it last answered, in nanoseconds since the epoch
}

// gauges are those of one endpoint, by class. There are few, and each call looks one up,
// so the map is replaced and never changed.
type gauges struct {
	byClass atomic.Pointer[map[string]*gauge]
}

func (g *gauges) get(class string, c *classes) *gauge {
	for {
		old := g.byClass.Load()
		if old != nil {
			if known, ok := (*old)[class]; ok {
				return known
			}
		}
		next := map[string]*gauge{class: {latency: c.get(class)}}
		if old != nil {
			maps.Copy(next, *old)
		}
		g.byClass.CompareAndSwap(old, &next)
	}
}

func (g *gauge) answered(now time.Time, took time.Duration) {
	g.last.Store(now.UnixNano())
	g.latency.Observe(took)
}

// silentSince reports whether nothing of the class was answered since t.
func (g *gauge) silentSince(t time.Time) bool { return g.last.Load() < t.UnixNano() }
