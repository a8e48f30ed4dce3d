package watch

import (
	"cmp"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/pause"
)

// A watch with a large backlog has a dedicated stream: etcd sends up to 1,000 revisions in one
// response, whatever their size, and nothing else meanwhile. So it delays no other watch, and
// can stop reading while its caller is slow, instead of pausing and being sent the rest again.

const (
	// minDedicated is the number of bytes, still to come in a response, from which a watch moves
	// to a dedicated stream. The other watches on its stream are created again then, so there must
	// be otherShare bytes for each of them.
	minDedicated = 4 << 20
	otherShare   = 64 << 10

	// maxReaderWait is how long, in all, a stream waits for its reader. Meanwhile the
	// server holds what it has read of history.
	maxReaderWait = time.Second

	// returnInterval is how often a dedicated stream requests progress, which shows that its
	// watch has caught up.
	returnInterval = time.Second
)

// dedicatedLocked is the target of a watch with a large backlog. There are few such shards in a
// group: proxies and balancers limit the streams of a connection. Over a foreign client
// (Config.Foreign) there are none.
func dedicatedLocked(e *Engine, from *shard) *shard {
	dedicated := e.dedicatedShardsLocked(from.key)
	switch {
	case e.cfg.Foreign:
		return nil
	case (from.dedicated || len(dedicated) < maxDedicated) && from.reserve():
		return from
	case len(dedicated) < maxDedicated:
		return e.newShardLocked(from.base, from.key, true)
	default:
		return nil
	}
}

// dedicatedOrSharedLocked is the target of a watch that resumes. If there are too many dedicated
// streams, it shares one with other watches whose readers are slow.
func dedicatedOrSharedLocked(e *Engine, from *shard) *shard {
	if to := dedicatedLocked(e, from); to != nil {
		return to
	}
	if e.cfg.Foreign {
		return from
	}
	return slices.MinFunc(e.dedicatedShardsLocked(from.key), func(a, b *shard) int { return cmp.Compare(a.load(), b.load()) })
}

// returnedLocked is the target of a watch that has caught up.
func returnedLocked(e *Engine, from *shard) *shard {
	if to := e.pickLocked(from.key); to != nil {
		return to
	}
	from.mu.Lock()
	defer from.mu.Unlock()
	if len(from.watchers) != 1 {
		return e.newShardLocked(from.base, from.key, false)
	}
	from.dedicated = false
	return from
}

// dedicatedShardsLocked returns the shards of a group whose streams are dedicated.
func (e *Engine) dedicatedShardsLocked(key string) []*shard {
	return slices.DeleteFunc(slices.Clone(e.groups[key]), func(sh *shard) bool { return !sh.dedicated })
}

// reserve keeps other watches off the shard if it has only one.
func (sh *shard) reserve() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(sh.watchers) != 1 {
		return false
	}
	sh.dedicated, sh.readerWait = true, maxReaderWait
	pause.Signal(sh.wake) // its interval changes
	return true
}

// load returns the number of watches.
func (sh *shard) load() int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return len(sh.watchers)
}

// considerDedicated gives the watch a dedicated stream if much is still to come in the response
// that is arriving.
func (w *watcher) considerDedicated(h *pb.ResponseHeader, x extent) {
	sh := w.shard.Load()
	if sh.dedicated || x.bytesAhead(h.GetRevision()) < max(minDedicated, otherShare*(len(sh.watchers)-1)) {
		return
	}
	sh.later = append(sh.later, func() {
		sh.engine.moveAnd(w, sh, dedicatedLocked, func(to *shard) {
			if to != sh {
				sh.link.cancel(errMove) // otherwise the other watches wait for the rest of the response
			}
		})
	})
}

// caughtUp gives up the watch's dedicated stream.
func (w *watcher) caughtUp() {
	if sh := w.shard.Load(); sh.dedicated && w.phase == following && w.catchup == nil {
		sh.later = append(sh.later, func() { sh.engine.move(w, sh, returnedLocked) })
	}
}

// mayWaitLocked reports whether the stream may go unread until the watch's caller has read more.
func (sh *shard) mayWaitLocked(w *watcher) bool {
	return sh.dedicated && len(sh.watchers) == 1 && w.catchup == nil && sh.readerWait > 0
}

// awaitReader waits until half of the watch's allowance is read. If that takes too long, the
// watch pauses. The reader of the stream calls it.
func (sh *shard) awaitReader(w *watcher, limit int) {
	select {
	case <-sh.proceed:
	default:
	}
	if !w.buffer.awaitRoom(limit / 2) {
		return
	}
	begun := time.Now()
	_ = pause.Until(sh.ctx, sh.proceed, sh.readerWait)
	sh.mu.Lock()
	sh.readerWait -= time.Since(begun)
	if sh.readerWait <= 0 && w.shard.Load() == sh && w.phase == following && w.buffer.held() > limit/2 {
		w.pause(limit)
	}
	sh.unlock()
}

// hasRoom continues a watch whose caller has read enough.
func (e *Engine) hasRoom(w *watcher) {
	isPaused := false
	w.locked(func(sh *shard) {
		isPaused = w.phase == paused
		pause.Signal(sh.proceed)
	})
	if isPaused {
		e.resume(w)
	}
}

// resume puts a paused watch back on a stream.
func (e *Engine) resume(w *watcher) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.groups == nil {
		return
	}
	from := w.shard.Load() // which changes only with the engine's lock
	e.transferLocked(w, from, dedicatedOrSharedLocked(e, from), func(*shard) { w.resume() })
}
