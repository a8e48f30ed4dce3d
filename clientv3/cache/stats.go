package cache

import (
	"sync/atomic"

	"github.com/quorate/quorate/observe"
)

// Stats counts what a [Cache] has done since it was made, for metrics.
type Stats struct {
	// Hits and Misses count the gets answered from memory and by the server. Timeouts counts
	// the misses that had waited for [Config.MaxWait].
	Hits, Misses, Timeouts int64
	// Floors are the linearizable reads of the revision, and ProgressRequests the progress requests
	// on the watches; many gets share one.
	Floors, ProgressRequests int64
	// Events are those of the watches.
	Events int64
	// Watches are the present local watches ([Cache.Watcher]). Behind counts how often one of them was served by a watch of its own at
	// the server.
	Watches, Behind int64
	// Loads are complete reads of a prefix, and Resyncs reads of only its changes. Reopened
	// counts the watch streams that were given up because they did not answer.
	Loads, Resyncs, Reopened int64
	// Keys and Bytes are what the cache holds now, see [Config.MaxBytes]; Bytes includes what is being loaded.
	Keys, Bytes int64
}

type counters struct {
	hits, misses, timeouts, floors, progress, events, behind, loads, resyncs, reopened atomic.Int64
}

// Stats returns the present counters.
func (c *Cache) Stats() Stats {
	s := Stats{
		Hits: c.stats.hits.Load(), Misses: c.stats.misses.Load(), Timeouts: c.stats.timeouts.Load(),
		Floors: c.stats.floors.Load(), ProgressRequests: c.stats.progress.Load(),
		Events: c.stats.events.Load(), Loads: c.stats.loads.Load(), Resyncs: c.stats.resyncs.Load(),
		Behind: c.stats.behind.Load(), Reopened: c.stats.reopened.Load(), Bytes: c.bytes.Load(),
	}
	for _, v := range c.views {
		s.Watches += v.window.count()
		if snap := v.snap.Load(); snap != nil {
			s.Keys += int64(snap.tree.Len())
		}
	}
	return s
}

// Metrics returns the counters and the age of [Cache.Freshness], for observe/prometheus, observe/otel and
// other metrics libraries. The age is below 0 while nothing is proven.
func (c *Cache) Metrics() []observe.Metric {
	s, f := c.Stats(), c.Freshness()
	gets := func(result string, n int64) observe.Metric {
		return observe.Counter("quorate.cache.gets", "{call}", "Gets of cached keys, by result.", float64(n)).By("result", result)
	}
	return []observe.Metric{
		gets("hit", s.Hits),
		gets("miss", s.Misses-s.Timeouts),
		gets("timeout", s.Timeouts),
		observe.Counter("quorate.cache.floors", "{call}", "Linearizable reads of the revision.", float64(s.Floors)),
		observe.Counter("quorate.cache.progress_requests", "{request}", "Progress requests on the watches.", float64(s.ProgressRequests)),
		observe.Counter("quorate.cache.events", "{event}", "Events of the watches.", float64(s.Events)),
		observe.Gauge("quorate.cache.watches", "{watch}", "Watches that callers have open.", float64(s.Watches)),
		observe.Counter("quorate.cache.watches_behind", "{watch}", "Watches of callers that needed one of their own at the server.", float64(s.Behind)),
		observe.Counter("quorate.cache.loads", "{load}", "Complete reads of a prefix.", float64(s.Loads)),
		observe.Counter("quorate.cache.resyncs", "{resync}", "Reads of what had changed in a prefix.", float64(s.Resyncs)),
		observe.Counter("quorate.cache.reopened", "{stream}", "Watch streams that were given up because they did not answer.", float64(s.Reopened)),
		observe.Gauge("quorate.cache.keys", "{key}", "Keys in memory.", float64(s.Keys)),
		observe.Gauge("quorate.cache.size", "By", "What the keys in memory take.", float64(s.Bytes)),
		observe.Gauge("quorate.cache.age", "s", "Every write that was acknowledged this long ago is in memory; below 0 while nothing is proven.",
			f.Age.Seconds()),
	}
}

// Metrics returns the counters, for observe/prometheus, observe/otel and other metrics libraries.
func (in *Informer[T]) Metrics() []observe.Metric {
	s := in.Stats()
	return []observe.Metric{
		observe.Gauge("quorate.informer.objects", "{object}", "Objects in memory.", float64(s.Objects)),
		observe.Gauge("quorate.informer.pending", "{change}", "Changes that wait for handlers.", float64(s.Pending)),
		observe.Counter("quorate.informer.delivered", "{change}", "Changes that handlers received.", float64(s.Delivered)),
		observe.Counter("quorate.informer.merged", "{change}", "Changes that became part of another one before a handler received them.", float64(s.Merged)),
		observe.Counter("quorate.informer.decode_errors", "{error}", "Values that could not be decoded.", float64(s.DecodeErrors)),
	}
}
