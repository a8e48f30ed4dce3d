package watch

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/observe/introspect"
)

// maxWatchers is how many watches share a stream before another one is opened. etcd
// buffers 128 responses for a stream; a write that matches many more watches than
// that makes the stream fall behind.
const maxWatchers = 1000

// maxSplits bounds the parts of all watches that catch up at the same time, each
// of which makes etcd read history.
const maxSplits = 4 * maxParts

// maxDedicated bounds the dedicated streams of a group, each for one watch that catches up.
// The default budget has room for as many full buffers.
const maxDedicated = 8

// ErrClosed is the error of calls to a closed engine.
var ErrClosed = errors.New("etcdclient: the watcher is closed: no stream found for context")

// Config configures an engine.
type Config struct {
	// Connect returns the Connector of another shard.
	Connect func() Connector
	// MaxBuffer bounds what one watch holds for its caller, in bytes. Budget bounds all
	// watches of the engines that share it.
	MaxBuffer int
	Budget    *Budget
	// DisableSplit makes a watch that is far behind catch up as one subscription.
	DisableSplit bool
	// Foreign says that the streams are those of a client of the program, which may be a mock:
	// creates carry no id and are sent one at a time, and only callers request progress.
	Foreign bool
	// FragmentOnRequest asks for fragments only if the caller does. Without fragments a response
	// that exceeds the limit of the client fails the watch, as it does with the official client.
	FragmentOnRequest bool
	// History checks headers and reports when the history of watches is over. It may be
	// nil.
	History *lineage.Tracker
	// Read reads a key so that History sees the store's present revision. It is set if
	// History is.
	Read func(ctx context.Context, key string) error
	// Logger is called for every use, because the logger may change.
	Logger func() *zap.Logger
}

// Engine carries the watches of a client.
type Engine struct {
	cfg     Config
	closed  chan struct{}
	running sync.WaitGroup
	parts   atomic.Int64 // of watches that catch up

	pauseLogged atomic.Int64 // the time of the last line, in Unix nanoseconds

	// mu guards groups, and the assignment of watchers to shards. It is taken
	// before the lock of a shard, never after.
	mu     sync.Mutex
	groups map[string][]*shard // by the metadata of their callers
}

// New returns an engine. It does nothing until the first watch.
func New(cfg Config) *Engine {
	return &Engine{cfg: cfg, closed: make(chan struct{}), groups: make(map[string][]*shard)}
}

// Watch starts a watch and returns when a server has created it, when it has ended, or when
// ctx has ended. The watch lives until ctx ends.
func (e *Engine) Watch(ctx context.Context, req Request, sink Sink) {
	req.Fragment = req.Fragment || !e.cfg.Foreign && !e.cfg.FragmentOnRequest
	w := newWatcher(req, sink, e.cfg.Budget)
	if history := e.cfg.History.History(); req.Rev > 0 && req.Rev <= history.Revision()+1 {
		w.history = history // the watch starts in the present history
	}
	ready := w.ready
	if ctx.Err() != nil || !e.enter(ctx, w) {
		sink.Close()
		return
	}
	select {
	case <-ready:
	case <-ctx.Done():
		w.cancel()
	}
}

// enter puts a watch on a shard. It returns false if the engine is closed.
func (e *Engine) enter(ctx context.Context, w *watcher) bool {
	key := metadataKey(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.groups == nil {
		return false
	}
	sh := e.ordinaryShardLocked(context.WithoutCancel(ctx), key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.adoptLocked(w)
	w.unlisten = context.AfterFunc(ctx, w.cancel)
	return true
}

// pickLocked returns a shard for another ordinary watch, nil if there is none.
func (e *Engine) pickLocked(key string) *shard {
	for _, sh := range e.groups[key] {
		if !sh.dedicated && sh.accepts() {
			return sh
		}
	}
	return nil
}

// ordinaryShardLocked returns a shard for another ordinary watch, a new one if there is none.
func (e *Engine) ordinaryShardLocked(base context.Context, key string) *shard {
	if sh := e.pickLocked(key); sh != nil {
		return sh
	}
	return e.newShardLocked(base, key, false)
}

func (e *Engine) newShardLocked(base context.Context, key string, dedicated bool) *shard {
	sh := newShard(base, e, key, dedicated)
	e.groups[key] = append(e.groups[key], sh)
	e.running.Go(sh.run)
	return sh
}

// shardsLocked returns the shards of all groups.
func (e *Engine) shardsLocked() []*shard {
	return slices.Concat(slices.Collect(maps.Values(e.groups))...)
}

// target finds or makes the shard that a watch moves to, nil if there is none at
// present. Targets run with the engine's lock.
type target func(e *Engine, from *shard) *shard

// ordinaryLocked is the target of a watch that leaves its dedicated stream.
func ordinaryLocked(e *Engine, from *shard) *shard { return e.ordinaryShardLocked(from.base, from.key) }

// move moves a watch from its shard to another of the same group, unless it has
// ended or moved meanwhile.
func (e *Engine) move(w *watcher, from *shard, to target) {
	e.moveAnd(w, from, to, func(*shard) {})
}

// moveAnd calls then with the lock of the watch's new shard.
func (e *Engine) moveAnd(w *watcher, from *shard, to target, then func(*shard)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.groups == nil {
		return
	}
	if sh := to(e, from); sh != nil {
		e.transferLocked(w, from, sh, then)
	}
}

// transferLocked moves a watch to another shard, and calls then with the lock of that
// shard. Only transferLocked locks two shards: the engine's lock makes their order
// irrelevant.
func (e *Engine) transferLocked(w *watcher, from, to *shard, then func(*shard)) {
	from.mu.Lock()
	defer from.mu.Unlock()
	if to != from {
		to.mu.Lock()
		defer to.mu.Unlock()
	}
	if w.phase != ended && w.shard.Load() == from {
		wanted := w.current.progressPending || to != from && (from.session.progress.wanted || from.session.progress.notify > 0)
		to.session.progress.wanted = to.session.progress.wanted || wanted
		if to != from {
			next := w.stop()
			delete(from.watchers, w)
			w.current = newSubscription(&w.req, w, next, w.phase == paused && w.current.progressPending)
			to.adoptLocked(w)
		}
		then(to)
		from.signalLocked()
		to.signalLocked()
	}
	e.retireLocked(from)
	e.retireLocked(to)
}

// allowance returns how many bytes a watch may hold for its caller at present.
func (e *Engine) allowance() int { return e.cfg.Budget.allowance(e.cfg.MaxBuffer) }

// catchUp splits a watch that is behind, on a dedicated stream.
func (e *Engine) catchUp(w *watcher, from *shard, p plan) {
	if e.parts.Add(int64(p.parts)) > maxSplits {
		e.parts.Add(int64(-p.parts))
		return
	}
	started := false
	e.moveAnd(w, from, dedicatedLocked, func(to *shard) {
		if w.phase != following || w.catchup != nil || p.budget > e.cfg.Budget.left() {
			return
		}
		started = true
		to.splits++
		e.cfg.Budget.use(p.budget)
		w.catchup = newCatchup(p, w.current, w)
	})
	if !started {
		e.parts.Add(int64(-p.parts))
	}
}

// retire ends a shard that has no watches left.
func (e *Engine) retire(sh *shard) {
	e.mu.Lock()
	defer e.mu.Unlock()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e.retireLocked(sh)
}

func (e *Engine) retireLocked(sh *shard) {
	if len(sh.watchers) > 0 {
		return
	}
	e.removeLocked(sh)
	sh.cancel()
}

// removeLocked takes a shard out of its group.
func (e *Engine) removeLocked(sh *shard) {
	rest := slices.DeleteFunc(slices.Clone(e.groups[sh.key]), func(other *shard) bool { return other == sh })
	if len(rest) == 0 {
		delete(e.groups, sh.key)
		return
	}
	e.groups[sh.key] = rest
}

// RequestProgress requests progress for all watches whose callers have the same
// metadata as ctx.
func (e *Engine) RequestProgress(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.groups == nil {
		return ErrClosed
	}
	for _, sh := range e.groups[metadataKey(ctx)] {
		sh.mu.Lock()
		sh.session.requestProgress(true)
		for w := range sh.watchers {
			w.current.progressPending = w.current.progressPending || w.phase == paused
		}
		sh.fastReopenLocked()
		sh.signalLocked()
		sh.mu.Unlock()
	}
	return nil
}

// Reopen closes the streams of all watches whose callers have the same metadata as ctx,
// because they do not answer progress requests. The watches resume, on other members if there
// are any, and one revision earlier: etcd answers no request while a watch of the stream begins at a
// revision that the store has not reached.
func (e *Engine) Reopen(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, sh := range e.groups[metadataKey(ctx)] {
		sh.mu.Lock()
		sh.session.rewinds = true
		if sh.wake != nil {
			sh.link.cancel(errStuck)
		}
		sh.mu.Unlock()
	}
}

// Close ends all watches and returns when all goroutines of the engine have ended.
func (e *Engine) Close() {
	e.mu.Lock()
	shards := e.shardsLocked()
	if e.groups != nil {
		close(e.closed)
	}
	e.groups = nil
	e.mu.Unlock()
	for _, sh := range shards {
		sh.close()
	}
	e.running.Wait()
}

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
		e.cfg.Logger().Info("watcher substream buffer is backlogged; subscriber may be too slow to consume events",
			zap.ByteString("range-start", req.Key), zap.ByteString("range-end", req.End), zap.Duration("time-blocked", waited))
	}
}
