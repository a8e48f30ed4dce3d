package balancer

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/health"
)

// shapes are the shapes of calls that the policy has seen, and how long each takes,
// wherever it goes.
type shapes struct{ byName sync.Map } // name → *health.Latency

func (c *shapes) get(name string) *health.Latency {
	if l, ok := c.byName.Load(name); ok {
		return l.(*health.Latency)
	}
	l, _ := c.byName.LoadOrStore(name, new(health.Latency))
	return l.(*health.Latency)
}

// stat is what one endpoint shows of calls of one shape.
type stat struct {
	*health.Latency
	// answered is when a call began of which the answer came last.
	answered health.Stamp
	ended    ended
}

func (s *stat) observe(start time.Time, took time.Duration) {
	s.answered.Set(start)
	s.Observe(took)
}

// latencies are the stats of one endpoint, by shape. There are few, and each call looks one
// up, so the map is replaced and never changed.
type latencies struct {
	byShape atomic.Pointer[map[string]*stat]
}

func (g *latencies) get(shape string, all *shapes) *stat {
	for {
		old := g.byShape.Load()
		if old != nil {
			if known, ok := (*old)[shape]; ok {
				return known
			}
		}
		next := map[string]*stat{shape: {Latency: all.get(shape)}}
		if old != nil {
			maps.Copy(next, *old)
		}
		g.byShape.CompareAndSwap(old, &next)
	}
}
