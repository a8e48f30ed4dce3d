package cache

import "sync/atomic"

// Stats counts what a [Cache] has done since it was made, for metrics.
type Stats struct {
	// Hits and Misses are gets answered from memory, and by the server. Timeouts of the latter
	// had waited for [Config.MaxWait].
	Hits, Misses, Timeouts int64
	// Floors are the linearizable reads of the revision, and ProgressRequests the questions how
	// far the watches are; many gets share one.
	Floors, ProgressRequests int64
	// Events are those of the watches.
	Events int64
	// Loads are complete reads of a prefix and Resyncs those of what had changed. Reopened counts
	// the watch streams that were given up because they did not answer.
	Loads, Resyncs, Reopened int64
	// Keys and Bytes are what the cache holds at the moment, see [Config.MaxBytes].
	Keys, Bytes int64
}

type counters struct {
	hits, misses, timeouts, floors, progress, events, loads, resyncs, reopened atomic.Int64
}

// Stats returns the counters of the moment. It takes no lock.
func (c *Cache) Stats() Stats {
	s := Stats{
		Hits: c.stats.hits.Load(), Misses: c.stats.misses.Load(), Timeouts: c.stats.timeouts.Load(),
		Floors: c.stats.floors.Load(), ProgressRequests: c.stats.progress.Load(),
		Events: c.stats.events.Load(), Loads: c.stats.loads.Load(), Resyncs: c.stats.resyncs.Load(),
		Reopened: c.stats.reopened.Load(), Bytes: c.bytes.Load(),
	}
	for _, v := range c.views {
		if snap := v.snap.Load(); snap != nil {
			s.Keys += int64(snap.tree.Len())
		}
	}
	return s
}
