package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/observe"
)

// State is the state of a prefix in a [Status].
type State int

const (
	// Loading is a prefix that is not in memory: all of its reads go to the server.
	Loading State = iota + 1
	// InSync is a prefix in memory that follows the cluster.
	InSync
	// Stale is a prefix in memory whose watch is not open, or is behind, or of which nothing has proven for two
	// [Config.ProbeInterval] that it has every write.
	Stale
	// Denied is a prefix that is not in memory because the client's user may not read it.
	Denied
)

func (s State) String() string {
	names := map[State]string{Loading: "loading", InSync: "in sync", Stale: "stale", Denied: "denied"}
	return cmp.Or(names[s], fmt.Sprintf("State(%d)", int(s)))
}

// Status is the state of a prefix.
type Status struct {
	Prefix string
	State  State
	// Since is the latest time of which memory is known to have every acknowledged write, zero if there is none. A
	// stale prefix is stale since then.
	Since time.Time
	// Err says why linearizable reads go to the server, as [Freshness.Err] does; nil if they do not.
	Err error
}

// Status returns the state of each prefix, in their order. It sends no request.
func (c *Cache) Status() []Status {
	all := make([]Status, 0, len(c.views))
	for _, v := range c.views {
		all = append(all, v.status())
	}
	return all
}

func (v *view) status() Status {
	s := Status{Prefix: v.prefix, State: InSync, Err: v.remoteReason()}
	asOf := v.asOf.Load()
	if asOf != nil {
		s.Since = *asOf
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.snap.Load() == nil && (errors.Is(v.err, rpctypes.ErrPermissionDenied) || errors.Is(v.dropped, rpctypes.ErrPermissionDenied)):
		s.State = Denied
	case v.snap.Load() == nil:
		s.State = Loading
	case errors.Is(v.watchDoubt, errNotWatched), v.behind.Load(), asOf != nil && time.Since(*asOf) > 2*v.c.cfg.ProbeInterval:
		s.State = Stale
	}
	return s
}

// followStatus calls OnStatus when the state changes.
func (v *view) followStatus() {
	var last State
	tick := time.Tick(v.c.cfg.ProbeInterval / 2)
	for {
		changed := v.awaitChange()
		if s := v.status(); s.State != last {
			last = s.State
			v.c.cfg.OnStatus(s)
		}
		select {
		case <-changed:
		case <-tick:
		case <-v.c.ctx.Done():
			return
		}
	}
}

// WaitForRevision returns when every prefix has all changes up to a revision, that of a write for instance: what is read from
// memory afterwards has them. It asks for progress meanwhile, up to once a second after the first, so a revision that the
// store does not reach is waited for until ctx ends; so is any with a server whose progress proves nothing, until a key of each
// prefix changes, and any while a prefix is denied or does not fit into [Config.MaxBytes] ([Informer.WaitForRevision] waits for
// one prefix). The error is that of ctx, or [ErrClosed].
func (c *Cache) WaitForRevision(ctx context.Context, rev int64) error {
	for _, v := range c.views {
		if err := v.waitForRevision(ctx, rev); err != nil {
			return err
		}
	}
	return nil
}

func (v *view) waitForRevision(ctx context.Context, rev int64) error {
	reached := func() bool {
		s := v.snap.Load()
		return s != nil && s.rev >= rev
	}
	if reached() {
		return nil
	}
	defer v.c.advanceToFuture(v, rev)()
	return v.waitUntil(ctx, nil, reached)
}

// WaitForRevision returns when the objects have all changes of their prefix up to a revision, that of a write for instance: a
// read of the informer has them. [Cache.WaitForRevision] says what it costs, and when it waits for longer. Handlers may not have
// received them yet. The error is that of ctx, or [ErrClosed].
func (in *Informer[T]) WaitForRevision(ctx context.Context, rev int64) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(in.ctx, cancel)()
	for {
		if err := in.view.waitForRevision(waiting, rev); err != nil { // again if the history has changed
			if ctx.Err() == nil {
				return ErrClosed
			}
			return err
		}
		in.mu.RLock()
		reached, updated := in.rev >= rev, in.updated
		in.mu.RUnlock()
		if reached {
			return nil
		}
		in.feed.signal() // progress does not wake the informer
		select {
		case <-updated:
		case <-ctx.Done():
			return ctx.Err()
		case <-in.ctx.Done():
			return ErrClosed
		}
	}
}

// Stats counts what a [Cache] has done since it was made, for metrics.
type Stats struct {
	// Hits and Misses count the gets of cached keys that memory and the server answer. Timeouts counts
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
