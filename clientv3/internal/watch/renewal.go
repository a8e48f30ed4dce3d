package watch

import (
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// maxRefusals bounds the tokens that are tried for one watch.
const maxRefusals = 3

// renew moves a watch to a new stream, if the server refused it because of the
// stream's token and another token can be had. It needs the lock, and is called
// by the reader.
//
// Before 3.5.6 etcd calls every token that it does not know a denied permission, 3.4
// included. So a denial on a stream is doubted once: it is believed when another
// stream, with a new token, meets it too. Then the first stream's token is as good,
// and what is denied on it from then on is believed at once.
func (sh *shard) renew(w *watcher, resp *pb.WatchResponse) bool {
	if resp.CancelReason == "" || w.refusals >= maxRefusals {
		return false
	}
	err := refusal(resp.CancelReason)
	if isDenial(err) && sh.trusts(w) {
		return false
	}
	if !sh.conn.InvalidateToken(err) {
		return false
	}
	if isDenial(err) {
		sh.doubted = true
		w.deniedBy = sh
	}
	w.refusals++
	next := w.stop()
	w.current = newSubscription(&w.req, w, next)
	sh.later = append(sh.later, func() { sh.engine.move(w, sh, newer) })
	if sh.stale.IsZero() {
		sh.stale = time.Now()
		sh.session.hold()
		sh.later = append(sh.later, sh.moveQueued)
	}
	return true
}

// trusts reports whether a denial of a watch is the last word. It needs the lock.
func (sh *shard) trusts(w *watcher) bool {
	if by := w.deniedBy; by != nil {
		sh.later = append(sh.later, by.confirmDenial)
		return true
	}
	return sh.doubted && sh.stale.IsZero()
}

// confirmDenial is called when a new token was denied what the stream's was.
func (sh *shard) confirmDenial() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.doubted {
		sh.stale = time.Time{}
	}
}

// moveQueued moves the watches for which the stream's token would be refused next.
func (sh *shard) moveQueued() {
	for _, w := range sh.watchersWith(func(w *watcher) bool { return w.current.state == queued }) {
		sh.engine.move(w, sh, newer)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.session.release() // what comes late is refused, and moves in its turn
	sh.signal()
}

// watchersWith returns the watches of the shard that have a property.
func (sh *shard) watchersWith(have func(*watcher) bool) []*watcher {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var some []*watcher
	for w := range sh.watchers {
		if have(w) {
			some = append(some, w)
		}
	}
	return some
}

// newer is the target of a watch that was refused: a stream that is younger than
// the refusal.
func newer(e *Engine, from *shard) *shard {
	from.mu.Lock()
	since := from.stale
	from.mu.Unlock()
	for _, sh := range e.groups[from.key] {
		if !sh.bulk && sh != from && sh.newerThan(since) {
			return sh
		}
	}
	return e.newShard(from.base, from.key, false)
}

// newerThan reports whether another watch can be put on the shard, whose stream
// is opened after the given time.
func (sh *shard) newerThan(t time.Time) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.stale.IsZero() && len(sh.watchers) < maxWatchers && (sh.opened.IsZero() || sh.opened.After(t))
}

// accept notes that the server has created a watch on the stream, and so accepts
// its token. It needs the lock, and is called by the reader.
func (sh *shard) accept() {
	if !sh.accepted {
		sh.accepted = true
		sh.later = append(sh.later, func() { sh.engine.supersede(sh) })
		sh.goOn()
	}
}

// goOn tells that the watches of a stream that ended go on. It needs the lock, and is
// called by the reader.
func (sh *shard) goOn() {
	if sh.interrupted.IsZero() {
		return
	}
	watches, gap := len(sh.watchers), time.Since(sh.interrupted)
	sh.interrupted = time.Time{}
	sh.later = append(sh.later, func() { sh.conn.Resumed(watches, gap) })
}

// supersede has the streams of the group left whose tokens are refused.
func (e *Engine) supersede(by *shard) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, sh := range e.groups[by.key] {
		if sh.isStale() {
			sh.moveAllSoon()
		}
	}
}

func (sh *shard) isStale() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return !sh.stale.IsZero()
}

// moveAllSoon is called when there is a stream with a token that is accepted.
func (sh *shard) moveAllSoon() {
	select {
	case sh.superseded <- struct{}{}:
	default:
	}
}

// moveAll moves the watches that are still on a stream whose token is refused
// to one that can take further ones, and so ends the stream.
func (sh *shard) moveAll() {
	if !sh.isStale() {
		return // it was opened again since
	}
	for _, w := range sh.watchersWith(func(*watcher) bool { return true }) {
		sh.engine.move(w, sh, newer)
	}
}
