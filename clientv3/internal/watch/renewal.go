package watch

import (
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// tokenLife is the default of etcd's --auth-token-ttl. A token that was valid longer ago may have expired.
const tokenLife = 5 * time.Minute

// maxRefusals bounds the number of tokens tried for one watch.
const maxRefusals = 3

// renewLocked moves a watch to a new stream if the server refused the stream's token and
// another token, or another member, is available. It is called by the reader.
//
// Before 3.5.6, 3.4 included, etcd reports an unknown token as "permission denied".
// So the first denial on a stream is not trusted: it is final if a new stream, with
// a new token, gets it too. Then further denials on the first stream are final at once,
// for tokenLife.
func (sh *shard) renewLocked(w *watcher, resp *pb.WatchResponse) bool {
	if resp.CancelReason == "" || w.refusals >= maxRefusals {
		return false
	}
	err := refusal(resp.CancelReason)
	if isDenial(err) && sh.isFinalLocked(w) {
		return false
	}
	again, another := sh.link.conn.InvalidateToken(err)
	if !again {
		return false
	}
	if isDenial(err) {
		sh.doubted = time.Now()
		w.deniedBy = sh
	}
	if another {
		w.refusals++
	}
	next := w.stop()
	w.current = newSubscription(&w.req, w, next)
	sh.later = append(sh.later, func() { sh.engine.move(w, sh, newerLocked) })
	if sh.stale.IsZero() {
		sh.stale = time.Now()
		sh.session.hold()
		sh.later = append(sh.later, sh.moveQueued)
	}
	return true
}

// isFinalLocked reports whether a denial of a watch is final.
func (sh *shard) isFinalLocked(w *watcher) bool {
	if by := w.deniedBy; by != nil {
		sh.later = append(sh.later, by.confirmDenial)
		return true
	}
	return time.Since(sh.doubted) < tokenLife && sh.stale.IsZero()
}

// confirmDenial is called when the server denies the same request with a new token. If the stream
// is old, its own may have expired nevertheless: it is reopened with another one.
func (sh *shard) confirmDenial() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	switch {
	case sh.doubted.IsZero():
	case sh.wake != nil && time.Since(sh.link.opened) >= tokenLife:
		sh.link.cancel(errMove)
	default:
		sh.stale = time.Time{}
	}
}

// moveQueued moves the watches for which the stream's token would be refused next.
func (sh *shard) moveQueued() {
	sh.moveMatching(func(w *watcher) bool { return w.current.state == queued })
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.session.release() // creates that are added late are refused and then move
	sh.signalLocked()
}

// moveMatching moves the watches that match to streams with newer tokens. It calls match with the lock.
func (sh *shard) moveMatching(match func(*watcher) bool) {
	sh.mu.Lock()
	matching := slices.Collect(maps.Keys(sh.watchers))
	matching = slices.DeleteFunc(matching, func(w *watcher) bool { return !match(w) })
	sh.mu.Unlock()
	for _, w := range matching {
		sh.engine.move(w, sh, newerLocked)
	}
}

// newerLocked is the target of a refused watch: a stream opened after the refusal.
func newerLocked(e *Engine, from *shard) *shard {
	from.mu.Lock()
	since := from.stale
	from.mu.Unlock()
	for _, sh := range e.groups[from.key] {
		if !sh.dedicated && sh != from && sh.newerThan(since) {
			return sh
		}
	}
	return e.newShardLocked(from.base, from.key, false)
}

// newerThan reports whether the shard accepts another watch and its stream is
// opened after t.
func (sh *shard) newerThan(t time.Time) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.stale.IsZero() && len(sh.watchers) < maxWatchers && (sh.wake == nil || sh.link.opened.After(t))
}

// acceptLocked records that the server has created a watch on the stream, and so accepts
// its token. It is called by the reader.
func (sh *shard) acceptLocked() {
	if !sh.accepted {
		sh.accepted = true
		sh.later = append(sh.later, func() { sh.engine.supersede(sh) })
		sh.reportResumedLocked()
	}
}

// reportResumedLocked reports that the watches of an ended stream have resumed. The reader calls it.
func (sh *shard) reportResumedLocked() {
	if sh.interrupted.IsZero() {
		return
	}
	watches, gap := len(sh.watchers), time.Since(sh.interrupted)
	sh.interrupted = time.Time{}
	sh.later = append(sh.later, func() { sh.link.conn.Resumed(watches, gap) })
}

// supersede moves the watches of streams whose token is refused to streams that accept more, which
// ends the old ones. It is called as soon as there is one, because the new token may be refused later,
// and another one may not be had.
func (e *Engine) supersede(by *shard) {
	e.mu.Lock()
	group := slices.Clone(e.groups[by.key])
	e.mu.Unlock()
	for _, sh := range group {
		sh.moveMatching(func(*watcher) bool { return sh.wake != nil && !sh.stale.IsZero() }) // the next stream has another token
	}
}
