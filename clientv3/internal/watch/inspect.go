package watch

import (
	"cmp"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/observe/introspect"
)

// States are those of watches, in the order in which [Engine.Inspect] sorts them.
var States = [...]string{
	introspect.WatchOpening, introspect.WatchInterrupted, introspect.WatchCatchingUp, introspect.WatchFollowing, introspect.WatchPaused,
}

// Inspect adds the watches of the engine to a report, which has the store's revision. It keeps those that are furthest
// behind, up to the limit of o.
func (e *Engine) Inspect(o introspect.Options, into *introspect.Watches) {
	now := time.Now()
	e.mu.Lock()
	shards := e.shardsLocked()
	e.mu.Unlock()
	for _, sh := range shards {
		sh.inspect(now, o, into)
		slices.SortFunc(into.Furthest, further)
		into.Furthest = into.Furthest[:min(len(into.Furthest), o.Limit)]
	}
}

// further sorts the watches that are further behind first.
func further(a, b introspect.Watch) int {
	return cmp.Or(
		cmp.Compare(b.BlockedSeconds, a.BlockedSeconds), cmp.Compare(b.UnreadBytes, a.UnreadBytes),
		cmp.Compare(slices.Index(States[:], a.State), slices.Index(States[:], b.State)),
		cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Key, b.Key),
	)
}

func (sh *shard) inspect(now time.Time, o introspect.Options, into *introspect.Watches) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.session.connected {
		into.Streams++
	}
	for w := range sh.watchers {
		shown := introspect.Watch{Range: len(w.req.End) > 0, State: w.shownState(sh)}
		if o.Keys {
			shown.Key = string(w.req.Key)
		}
		next := w.current.next
		if w.catchup != nil {
			next = w.catchup.current().next
		}
		if next > 0 {
			shown.Revision, shown.LagRevisions = next-1, max(into.Revision-next+1, 0)
		}
		w.buffer.inspect(now, &shown)
		into.Open++
		into.ByState[shown.State]++
		into.BlockedSeconds = max(into.BlockedSeconds, shown.BlockedSeconds)
		if shown.State != introspect.WatchFollowing {
			into.LagRevisions = max(into.LagRevisions, shown.LagRevisions)
		}
		into.Furthest = append(into.Furthest, shown)
	}
}

func (w *watcher) shownState(sh *shard) string {
	switch {
	case w.phase == opening:
		return introspect.WatchOpening
	case w.phase == paused:
		return introspect.WatchPaused
	case !sh.session.connected || w.current.state != live && w.catchup == nil:
		return introspect.WatchInterrupted
	case w.catchup != nil || w.current.next != 0 && w.current.next <= w.current.created:
		return introspect.WatchCatchingUp
	default:
		return introspect.WatchFollowing
	}
}

func (b *buffer) inspect(now time.Time, shown *introspect.Watch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.pumping {
		return
	}
	shown.Unread, shown.UnreadBytes = len(b.waiting), b.bytes
	if b.offered != 0 {
		shown.Unread++ // the response offered to the reader
		shown.BlockedSeconds = max(now.Sub(time.Unix(0, b.offered)), 0).Seconds()
	}
}

const (
	// slowReader is how long a response waits for its reader before the watch logs
	// it, with LogSlowReader.
	slowReader = 100 * time.Millisecond
	// slowReaderInterval is the least time between two such lines of a watch, and
	// between two lines about paused watches.
	slowReaderInterval = 5 * time.Second
)

// logPause logs that a watch was paused. It logs one line per slowReaderInterval
// for all watches.
func (e *Engine) logPause(req *Request, next int64, limit int) {
	now := time.Now().UnixNano()
	if last := e.pauseLogged.Load(); now-last < int64(slowReaderInterval) || !e.pauseLogged.CompareAndSwap(last, now) {
		return
	}
	e.cfg.Logger().Warn("watch paused: its reader is too slow; the watch resumes when half of the buffer is read",
		zap.ByteString("key", req.Key), zap.ByteString("range-end", req.End),
		zap.Int64("next-revision", next), zap.Int("max-unread-bytes", limit))
}

// slowness returns a function that receives how long each response waited.
func (e *Engine) slowness(req *Request) func(time.Duration) {
	if !req.LogSlowReader {
		return func(time.Duration) {}
	}
	var logged time.Time
	return func(waited time.Duration) {
		if waited < slowReader || time.Since(logged) < slowReaderInterval {
			return
		}
		logged = time.Now()
		e.cfg.Logger().Info("watch responses wait for their reader",
			zap.ByteString("key", req.Key), zap.ByteString("range-end", req.End), zap.Duration("waited", waited))
	}
}
