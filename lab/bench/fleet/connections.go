package main

import (
	"math"
	"sync"
	"time"

	"github.com/quorate/quorate/lab/link"
)

// connectionInterval is the time in which the peak of new connections is counted.
const connectionInterval = 100 * time.Millisecond

// connections are those that clients opened in a phase.
type connections struct {
	// opened reached a member. peak is the most of them in one interval.
	opened, peak float64
	// refused did not, because the member did not run.
	refused float64
}

// connectionCounter counts connections until it is stopped.
type connectionCounter struct {
	links  []*link.Link
	done   chan struct{}
	work   sync.WaitGroup
	result connections
}

// countConnections starts to count those that the links accept. The counter must be
// stopped.
func countConnections(links []*link.Link) *connectionCounter {
	c := &connectionCounter{links: links, done: make(chan struct{})}
	begun := c.now()
	c.work.Go(func() { c.run(begun) })
	return c
}

// stop returns the connections since the start.
func (c *connectionCounter) stop() connections {
	close(c.done)
	c.work.Wait()
	return c.result
}

func (c *connectionCounter) run(begun connections) {
	ticker := time.NewTicker(connectionInterval)
	defer ticker.Stop()
	counts, times := []connections{begun}, []time.Time{time.Now()}
	for running := true; running; {
		select {
		case <-ticker.C:
		case <-c.done:
			running = false
		}
		counts, times = append(counts, c.now()), append(times, time.Now())
	}
	last := counts[len(counts)-1]
	c.result = connections{opened: last.opened - begun.opened, refused: last.refused - begun.refused, peak: peak(counts, times)}
}

// peak returns the most connections opened in one interval. A connection counts as
// opened until it is refused, a moment later; no count can therefore be right that is
// higher than a later one.
func peak(counts []connections, times []time.Time) float64 {
	var highest float64
	next := counts[len(counts)-1].opened
	for i := len(counts) - 2; i >= 0; i-- {
		opened := min(counts[i].opened, next)
		elapsed := times[i+1].Sub(times[i])
		// A late reading covers more than one interval.
		share := min(1, connectionInterval.Seconds()/elapsed.Seconds())
		highest = max(highest, math.Round((next-opened)*share))
		next = opened
	}
	return highest
}

// now returns the counts since the links were made.
func (c *connectionCounter) now() connections {
	var sum connections
	for _, l := range c.links {
		stats := l.Stats()
		sum.opened += float64(stats.Accepted) - float64(stats.Refused)
		sum.refused += float64(stats.Refused)
	}
	return sum
}
