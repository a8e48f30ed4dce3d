package watch

import (
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/internal/pause"
)

// continueHistoryLocked checks whether a created watch continues in its own history. A member
// with a lower revision than seen before may lag, or the store may have gone back: a
// linearizable read decides. It is called by the reader.
func (sh *shard) continueHistoryLocked(w *watcher, s *subscription, h *pb.ResponseHeader) {
	if w.history == nil {
		w.history = sh.link.history
	}
	if sh.engine.cfg.History.Over(w.history) != nil {
		sh.later = append(sh.later, sh.engine.endHistories)
		return
	}
	rev := h.GetRevision()
	behind := rev > 0 && rev < min(s.next-1, w.history.Revision())
	if !behind || h.GetClusterId() == 0 || sh.checkingCluster {
		return
	}
	sh.checkingCluster = true
	history, key := w.history, string(w.req.Key)
	sh.engine.running.Go(func() { sh.checkCluster(history, key) })
}

// The pause before a failed read is repeated. It doubles.
const (
	minCheckPause = time.Second
	maxCheckPause = time.Minute
)

// checkCluster reads until it is known whether the store has gone back. The history detects
// that in the header.
func (sh *shard) checkCluster(history *lineage.History, key string) {
	defer func() {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		sh.checkingCluster = false
	}()
	for bound := minCheckPause; sh.engine.cfg.History.Over(history) == nil; bound = min(2*bound, maxCheckPause) {
		if sh.engine.cfg.Read(sh.ctx, key) == nil {
			return
		}
		if pause.For(sh.ctx, rand.N(bound)) != nil {
			return
		}
	}
}

// endHistories ends the watches whose history is over, and reopens the streams that are
// older than the present history.
func (e *Engine) endHistories() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, sh := range e.shardsLocked() {
		sh.endHistory()
	}
}

// idleTimeout is how long a shard whose watches ended with their history waits for new ones.
const idleTimeout = 10 * time.Second

// awaitWatches ends the shard if it has no watches, and gets none within idleTimeout. Where endpoints belong to two
// clusters, a program makes its watches again and again: so their streams are opened with a backoff.
func (sh *shard) awaitWatches() {
	select {
	case <-sh.proceed:
	default:
	}
	if sh.load() == 0 {
		_ = pause.Until(sh.ctx, sh.proceed, idleTimeout)
	}
	sh.engine.retire(sh)
}

func (sh *shard) endHistory() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	h := sh.engine.cfg.History
	for w := range sh.watchers {
		if err := h.Over(w.history); err != nil {
			w.end(Response{Canceled: true, Err: err, CancelReason: err.Error()})
		}
	}
	if sh.wake != nil && h.Over(sh.link.history) != nil {
		sh.link.cancel(errChanged)
	}
	sh.signalLocked()
}
