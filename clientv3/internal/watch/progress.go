package watch

import (
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// maxInFlight bounds the progress responses that a server can have in flight:
// etcd's watch stream buffers 128 responses and sends one.
const maxInFlight = 129

// progressCounts counts the progress requests of a stream and their answers. A
// server answers each at most once, in order, and not at all while any watcher
// on the stream is behind or starts in the future.
//
// Before 3.4.25 and 3.5.8 etcd answers at once, even with events still to send, so
// the answer can overtake events of earlier revisions. Such a server can be
// detected: it also answers on a stream without watchers, where later versions do
// not. So every stream begins with a progress request. If the answer arrives before
// the reply to the first create, progress for all watchers goes only to callers
// that requested it, as they would get it from that server anyway, and moves no
// resume points.
type progressCounts struct {
	wanted bool // requested by a caller while there was no stream
	early  bool // the server answers before it has sent all events
	stray  bool // the answer to the stream's first request may still arrive
	made   int  // requests after the first create of this stream
	sent   int  // how many of them may still be answered
	past   int  // how many of them, from the first, will not be answered any more
	notify int  // further answers that are for callers
}

// inFlight returns how many answers to earlier requests may still arrive.
func (p *progressCounts) inFlight() uint8 { return uint8(min(p.sent, maxInFlight)) }

// reset prepares for the next stream. Unanswered requests of callers are repeated
// there.
func (p *progressCounts) reset() { *p = progressCounts{wanted: p.wanted || p.notify > 0} }

// requestProgress sends a progress request. With notify the answer is for the
// callers; otherwise it only moves resume points.
func (ss *session) requestProgress(notify bool) {
	p := &ss.progress
	if !ss.connected || !ss.firstCreated || len(ss.queue) > 0 {
		p.wanted = p.wanted || notify
		return
	}
	if ss.mode == serial && !notify {
		return // etcd's grpc-proxy logs an error for every progress request
	}
	p.wanted = false
	if n := len(ss.out); n == 0 || ss.out[n-1].GetProgressRequest() == nil {
		ss.send(progressRequest())
		p.made++
		p.sent++
	}
	if notify {
		p.notify = min(max(p.sent, 1), p.notify+2) // a request of the engine may be answered first
	}
}

// confirm records a response for s that the server queued, behind its answers, after it had
// created s. So all answers to requests from before that create have arrived: the server
// ignored the other requests.
func (ss *session) confirm(s *subscription) {
	p := &ss.progress
	p.past = int(s.priorRequests)
	p.sent = min(p.sent, p.made-p.past)
	for _, other := range ss.live {
		p.limitUnconfirmed(other)
	}
}

// limitUnconfirmed drops the answers that will not arrive any more.
func (p *progressCounts) limitUnconfirmed(s *subscription) {
	s.unconfirmed = min(s.unconfirmed, uint8(min(max(int(s.priorRequests)-p.past, 0), maxInFlight)))
}

// progressForAll processes a progress response for all watchers of the stream.
//
// It is valid for watchers that existed when the server answered. etcd's
// confirmation of a create can overtake such answers: an answer from before the
// watcher existed can arrive after its confirmation. If the answer's revision is
// above the confirmation's, it is newer; otherwise the watcher has to wait until
// all answers that may have been in flight have arrived.
func (ss *session) progressForAll(resp *pb.WatchResponse) {
	rev := resp.GetHeader().GetRevision()
	if resp.Canceled || len(resp.Events) > 0 || rev <= 0 {
		return
	}
	p := &ss.progress
	if ss.foreign { // the early check was not made
		p.sent, p.notify = 0, 0
		ss.passOn(resp.GetHeader(), true)
		return
	}
	if !ss.firstCreated {
		p.early = true
		return
	}
	if p.stray {
		p.stray = false
		if p.sent > 0 {
			ss.send(progressRequest()) // this one may be as old as the stream
		}
		return
	}
	if p.sent == 0 {
		return // an unsolicited answer
	}
	notify := p.notify > 0
	if !p.early {
		for _, s := range ss.live {
			if rev > s.created && int(s.priorRequests) > p.past {
				ss.confirm(s)
			}
		}
	}
	p.sent = max(p.sent-1, 0)
	p.notify = min(max(p.notify-1, 0), p.sent)
	if p.early {
		ss.passOn(resp.GetHeader(), notify)
		return
	}
	doubted := false
	for _, s := range ss.live {
		if s.assembly != nil {
			continue // in the middle of a fragmented batch, so this is not for it
		}
		if rev > s.created {
			s.unconfirmed = 0
		}
		if s.unconfirmed > 0 {
			s.unconfirmed--
			if rev >= s.next {
				s.progressPending = s.progressPending || notify
				doubted = true
				continue
			}
		}
		if s.advance(rev) {
			s.owner.progress(s, resp.GetHeader(), notify || s.progressPending)
			s.progressPending = false
		}
	}
	if doubted {
		ss.requestProgress(false)
	}
}

// passOn forwards the answer of an early server to callers.
func (ss *session) passOn(h *pb.ResponseHeader, notify bool) {
	for _, s := range ss.live {
		if notify && h.GetRevision()+1 >= s.next {
			s.owner.progress(s, h, true)
		}
	}
}

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
	w.current = newSubscription(&w.req, w, next, false)
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
