package balancer

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/health"
)

// shapes holds the latency of each shape of call, over all endpoints.
type shapes struct{ byName sync.Map } // name → *health.Latency

func (c *shapes) get(name string) *health.Latency {
	if l, ok := c.byName.Load(name); ok {
		return l.(*health.Latency)
	}
	l, _ := c.byName.LoadOrStore(name, new(health.Latency))
	return l.(*health.Latency)
}

// stat holds the statistics of one shape of call at one endpoint.
type stat struct {
	*health.Latency
	// answered is the start of the call that was answered last.
	answered health.Stamp
	ended    ended
}

func (s *stat) observe(start time.Time, took time.Duration) {
	s.answered.Set(start)
	s.Observe(took)
}

// latencies holds the stats of one endpoint, by shape. The map is copied on write: it is
// small, and each call reads it.
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
