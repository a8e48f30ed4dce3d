package watch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
)

// maxWatchers is how many watches share a stream before another one is opened.
// etcd buffers 128 responses for a stream; one write that concerns many more
// watches than that makes it fall behind.
const maxWatchers = 1000

// maxSplits bounds the parts of all watches that catch up at the same time, each
// of which makes etcd read history.
const maxSplits = 4 * maxParts

// ErrClosed is the error of calls to an engine that was closed.
var ErrClosed = errors.New("etcdclient: the watcher is closed: no stream found for context")

// Config is what an engine is made of.
type Config struct {
	// Connect returns the opener of another stream's attempts.
	Connect func() Connector
	// MaxBuffer bounds what one watch holds for its caller, in bytes.
	MaxBuffer int
	// Logger is asked at every use.
	Logger func() *zap.Logger
}

// Engine carries the watches of a client.
type Engine struct {
	cfg     Config
	closed  chan struct{}
	running sync.WaitGroup
	parts   atomic.Int64 // of watches that catch up

	// mu guards groups, and the assignment of watchers to shards. It is taken
	// before the lock of a shard, never after.
	mu     sync.Mutex
	groups map[string][]*shard // by the metadata of their callers
}

// New returns an engine. It does nothing until the first watch.
func New(cfg Config) *Engine {
	return &Engine{cfg: cfg, closed: make(chan struct{}), groups: make(map[string][]*shard)}
}

// Watch starts a watch, and returns when a server has created it, or it has
// ended, or ctx has. The watch lives until ctx ends.
func (e *Engine) Watch(ctx context.Context, req Request, sink Sink) {
	w := newWatcher(req, sink)
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
	sh := e.pick(key)
	if sh == nil {
		sh = e.newShard(ctx, key, false)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.adopt(w)
	w.leave = context.AfterFunc(ctx, w.cancel)
	return true
}

// pick returns a shard for another ordinary watch, nil if there is none. It
// needs the engine's lock.
func (e *Engine) pick(key string) *shard {
	for _, sh := range e.groups[key] {
		if !sh.bulk && sh.accepts() {
			return sh
		}
	}
	return nil
}

// pickBulk returns a shard for a watch that catches up. It needs the engine's lock.
func (e *Engine) pickBulk(key string) *shard {
	for _, sh := range e.groups[key] {
		if sh.bulk && sh.accepts() && !sh.splitting() {
			return sh
		}
	}
	return nil
}

// newShard needs the engine's lock.
func (e *Engine) newShard(ctx context.Context, key string, bulk bool) *shard {
	sh := newShard(ctx, e, key, bulk)
	e.groups[key] = append(e.groups[key], sh)
	e.running.Go(sh.run)
	return sh
}

// move takes a watch from its shard to another of the same group, if it is still
// there, and calls then with the locks of both.
func (e *Engine) move(w *watcher, from *shard, pick func(key string) *shard, bulk bool, then func(to *shard)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.groups == nil {
		return
	}
	to := pick(from.key)
	if to == nil {
		to = e.newShard(from.ctx, from.key, bulk)
	}
	from.mu.Lock()
	defer from.mu.Unlock()
	if to == from {
		if w.phase != ended && w.shard.Load() == from {
			then(to)
		}
		return
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	if w.phase != ended && w.shard.Load() == from {
		next := w.stop()
		delete(from.watchers, w)
		w.current = newSubscription(&w.req, w, next)
		to.adopt(w)
		then(to)
		to.signal()
	}
	e.retireLocked(from)
	e.retireLocked(to)
}

// moveToNewer moves a watch to a stream that is younger than the refusal of its
// shard's token.
func (e *Engine) moveToNewer(w *watcher, from *shard) {
	from.mu.Lock()
	since := from.stale
	from.mu.Unlock()
	e.move(w, from, func(key string) *shard {
		for _, sh := range e.groups[key] {
			if !sh.bulk && sh != from && sh.newerThan(since) {
				return sh
			}
		}
		return nil
	}, false, func(*shard) {})
}

// catchUp splits a watch that is behind, on a stream apart from the others.
func (e *Engine) catchUp(w *watcher, from *shard, p plan) {
	if e.parts.Add(int64(p.parts)) > maxSplits {
		e.parts.Add(int64(-p.parts))
		return
	}
	started := false
	e.move(w, from, e.pickBulk, true, func(to *shard) {
		if w.phase != following || w.catchup != nil {
			return
		}
		started = true
		to.splits++
		w.catchup = newCatchup(p, w.current, e.cfg.MaxBuffer, w)
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

// retireLocked needs the locks of the engine and the shard.
func (e *Engine) retireLocked(sh *shard) {
	if len(sh.watchers) > 0 {
		return
	}
	e.remove(sh)
	sh.cancel()
}

// remove takes a shard out of its group. It needs the engine's lock.
func (e *Engine) remove(sh *shard) {
	rest := e.groups[sh.key][:0:0]
	for _, other := range e.groups[sh.key] {
		if other != sh {
			rest = append(rest, other)
		}
	}
	if e.groups == nil {
		return
	}
	e.groups[sh.key] = rest
	if len(rest) == 0 {
		delete(e.groups, sh.key)
	}
}

// RequestProgress asks for progress on behalf of all watches whose callers have
// the same metadata as ctx.
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
		sh.signal()
		sh.mu.Unlock()
	}
	return nil
}

// Close ends all watches and returns when nothing of the engine runs any more.
func (e *Engine) Close() {
	e.mu.Lock()
	groups := e.groups
	e.groups = nil
	if groups != nil {
		close(e.closed)
	}
	e.mu.Unlock()
	for _, shards := range groups {
		for _, sh := range shards {
			sh.close()
		}
	}
	e.running.Wait()
}
