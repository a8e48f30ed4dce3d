package balancer

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/health"
)

// maxShapes bounds the shapes of a ClientConn, as the clients of a proxy choose the names of methods.
// All further shapes count as otherShape.
const (
	maxShapes  = 1000
	otherShape = "other"
)

// shapes holds the latency of each shape of call, over all endpoints.
type shapes struct {
	byName sync.Map // name → *health.Latency
	count  atomic.Int64
}

// get returns the latencies of a shape, and the name under which they are kept.
func (c *shapes) get(name string) (string, *health.Latency) {
	if l, ok := c.byName.Load(name); ok {
		return name, l.(*health.Latency)
	}
	if c.count.Add(1) > maxShapes {
		name = otherShape
	}
	l, known := c.byName.LoadOrStore(name, new(health.Latency))
	if known {
		c.count.Add(-1) // another call has counted it
	}
	return name, l.(*health.Latency)
}

// stat holds the statistics of one shape of call at one endpoint.
type stat struct {
	*health.Latency
	// answered is the start of the call that was answered last.
	answered health.Stamp
	// smoothed is the latency at this endpoint, in nanoseconds.
	smoothed atomic.Int64
	ended    ended
}

// smoothing is how many calls the smoothed latency remembers.
const smoothing = 16

func (s *stat) observe(start time.Time, took time.Duration) {
	s.answered.Set(start)
	s.Observe(took)
	old := s.smoothed.Load()
	if old == 0 {
		old = int64(took)
	}
	s.smoothed.Store(old + (int64(took)-old)/smoothing)
}

// latencies holds the stats of one endpoint, by shape. The map is copied on write: it is
// small, and each call reads it.
type latencies struct {
	byShape atomic.Pointer[map[string]*stat]
}

func (g *latencies) known(shape string) *stat {
	if known := g.byShape.Load(); known != nil {
		return (*known)[shape]
	}
	return nil
}

func (g *latencies) get(shape string, all *shapes) *stat {
	shape, latency := all.get(shape)
	for {
		old := g.byShape.Load()
		if known := g.known(shape); known != nil {
			return known
		}
		next := map[string]*stat{shape: {Latency: latency}}
		if old != nil {
			maps.Copy(next, *old)
		}
		g.byShape.CompareAndSwap(old, &next)
	}
}
