package watch

import (
	"fmt"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/internal/lineage"
)

type phase uint8

const (
	// opening: no server has created it yet.
	opening phase = iota
	// following: receives events, present or past ones.
	following
	// paused: its caller is far behind, and the server has no watcher for it.
	paused
	// ended: it has delivered its last response, or its caller has cancelled.
	ended
)

// watcher is a watch of one caller. The lock of its shard guards all of it except
// the buffer.
type watcher struct {
	req    Request
	buffer buffer
	shard  atomic.Pointer[shard]

	// The order of the fields keeps an idle watch small.
	phase    phase
	resumed  bool             // nothing has arrived since it resumed
	unsplit  bool             // it must not be split again
	refusals uint8            // of tokens, consecutive
	current  *subscription    // parked while paused
	catchup  *catchup         // nil unless far behind
	limit    int              // the allowance in bytes when it paused
	deniedBy *shard           // the previous stream, if it denied the watch
	history  *lineage.History // the history of its events; nil if unknown
	ready    chan struct{}    // closed when Watch may return; then nil
	unlisten func() bool      // stops listening to the caller's context
}

func newWatcher(req Request, sink Sink, budget *Budget) *watcher {
	w := &watcher{req: req, ready: make(chan struct{})}
	w.buffer.sink, w.buffer.budget = sink, budget
	w.current = newSubscription(&w.req, w, req.Rev, false)
	return w
}

// sessionLocked returns the session of the watcher's shard.
func (w *watcher) sessionLocked() *session { return w.shard.Load().session }

func (w *watcher) created(s *subscription, h *pb.ResponseHeader) {
	w.refusals, w.deniedBy = 0, nil
	w.shard.Load().continueHistoryLocked(w, s, h)
	w.shard.Load().acceptLocked()
	if w.catchup != nil && !w.sessionLocked().splittable() {
		w.rejoin()
	}
	if h.GetRevision() < s.next {
		w.caughtUp() // the server reports no progress before the revision at which a watch starts
	}
	if w.phase != opening {
		return
	}
	w.phase = following
	if w.req.CreatedNotify {
		w.push(Response{Header: h, Created: true, Proven: w.sessionLocked().splittable()})
	}
	w.release()
}

// release lets the call to Watch return.
func (w *watcher) release() {
	if w.ready != nil {
		close(w.ready)
		w.ready = nil
	}
}

func (w *watcher) events(s *subscription, h *pb.ResponseHeader, events []*mvccpb.Event) {
	w.resumed = false
	if w.catchup != nil {
		w.catchup.events(s, h, events)
		w.afterCatchup()
		return
	}
	head, last := h.GetRevision(), events[len(events)-1].GetKv().GetModRevision() // before they are the caller's
	var backlog extent
	if s.assembly == nil && head-last >= minSplitBacklog {
		backlog = extentOf(events)
	}
	if held := w.push(Response{Header: h, Events: events}); held > 0 {
		w.considerPause(held)
	}
	if w.phase != following {
		return
	}
	switch a := s.assembly; {
	case a != nil && !a.complete:
		w.considerDedicated(head, a.extent)
	case a != nil:
		w.considerCatchup(head, a.extent)
	case backlog.revisions > 0:
		w.considerCatchup(head, backlog)
	case head <= last:
		w.caughtUp()
	}
}

func (w *watcher) assembles(bytes int) { w.buffer.budget.use(bytes) }

// mergeable leaves room for the last fragment, and for what waits for the caller.
func (w *watcher) mergeable() int {
	return w.shard.Load().engine.allowance()*3/4 - w.buffer.atMost()
}

func (w *watcher) progress(s *subscription, h *pb.ResponseHeader, notify bool) {
	w.resumed = false
	if w.catchup != nil {
		w.catchup.progress(s, h.GetRevision())
		w.afterCatchup()
		w.current.progressPending = w.current.progressPending || notify
		return
	}
	if notify {
		// Other watches may get this header, too.
		w.considerPause(w.push(Response{Header: proto.CloneOf(h), Proven: w.sessionLocked().splittable()}))
	}
	w.caughtUp()
}

func (w *watcher) refused(s *subscription, resp *pb.WatchResponse) {
	if !w.shard.Load().renewLocked(w, resp) {
		w.canceled(s, resp)
	}
}

func (w *watcher) canceled(s *subscription, resp *pb.WatchResponse) {
	if w.catchup != nil {
		if resp = w.catchup.canceled(s, resp); resp == nil {
			return
		}
	}
	w.end(w.lastResponse(resp))
}

// lastResponse returns the caller's last response after the server refused or
// cancelled the watch.
func (w *watcher) lastResponse(resp *pb.WatchResponse) Response {
	r := Response{
		Header:          resp.GetHeader(),
		Canceled:        true,
		CompactRevision: resp.CompactRevision,
		CancelReason:    w.reason(resp),
	}
	if resp.Created && resp.CancelReason != "" {
		r.Err = refusal(resp.CancelReason)
	}
	return r
}

// reason returns the server's reason, and an explanation if events were lost
// because the caller is slow.
func (w *watcher) reason(resp *pb.WatchResponse) string {
	if resp.CompactRevision == 0 || !w.resumed {
		return resp.CancelReason
	}
	return fmt.Sprintf("etcdclient: the watch paused at revision %d because its reader had left more than %d bytes unread (Config.MaxWatchBufferBytes, MaxTotalWatchBufferBytes); revisions before %d have been compacted since",
		w.current.next, w.limit, resp.CompactRevision)
}

// push returns how many bytes wait for the caller.
func (w *watcher) push(r Response) (held int) { return w.buffer.push(r, w.startDelivery) }

// considerPause acts if too many bytes wait for the caller: a stream without other watches is not
// read for a while, otherwise the watch pauses.
func (w *watcher) considerPause(held int) {
	sh := w.shard.Load()
	limit := sh.engine.allowance()
	switch {
	case w.phase != following || held <= limit:
	case sh.mayWaitLocked(w):
		sh.later = append(sh.later, func() { sh.awaitReader(w, limit) })
	default:
		w.pause(limit)
	}
}

// pause takes the watch off the stream. The server then has no watcher for it.
func (w *watcher) pause(limit int) {
	sh := w.shard.Load()
	next, p := w.stop(), &sh.session.progress
	w.phase, w.limit = paused, limit
	w.current = newSubscription(&w.req, w, next, w.current.progressPending || p.wanted || p.notify > 0)
	sh.later = append(sh.later, func() { sh.engine.logPause(&w.req, next, limit) })
	if sh.dedicated {
		sh.later = append(sh.later, func() { sh.engine.move(w, sh, ordinaryLocked) })
	}
	if !w.buffer.awaitRoom(limit / 2) {
		sh.later = append(sh.later, func() { sh.engine.resume(w) })
	}
}

// stop removes the watch from its session and returns the first undelivered
// revision.
func (w *watcher) stop() int64 {
	if w.catchup != nil {
		next := w.catchup.abandon()
		w.endCatchup()
		return next
	}
	w.sessionLocked().remove(w.current)
	return w.current.next
}

// resume puts a paused watch back on the stream.
func (w *watcher) resume() {
	if w.phase != paused {
		return
	}
	w.phase = following
	w.resumed = true
	w.sessionLocked().add(w.current)
}

// end delivers the last response to the caller.
func (w *watcher) end(r Response) {
	if w.phase == ended {
		return
	}
	w.buffer.finish(r, w.startDelivery)
	w.detach()
}

// detach removes the watch from its shard permanently.
func (w *watcher) detach() {
	w.stop()
	w.phase = ended
	delete(w.shard.Load().watchers, w)
	w.unlisten()
	w.release()
}

// startDelivery runs the buffer's goroutine.
func (w *watcher) startDelivery() {
	engine := w.shard.Load().engine
	engine.running.Go(func() {
		w.buffer.deliver(engine.closed, engine.slowness(&w.req), func() { engine.hasRoom(w) })
	})
}

// locked runs f with the lock of the watcher's shard.
func (w *watcher) locked(f func(*shard)) {
	for {
		sh := w.shard.Load()
		sh.mu.Lock()
		if w.shard.Load() == sh {
			f(sh)
			sh.mu.Unlock()
			return
		}
		sh.mu.Unlock()
	}
}

func (w *watcher) cancel() {
	w.locked(func(sh *shard) {
		if w.phase != ended {
			w.detach()
		}
		w.buffer.drop()
		sh.signalLocked()
	})
	sh := w.shard.Load()
	sh.engine.retire(sh)
}

// extent describes the events of a response.
type extent struct {
	first, last int64 // revisions
	revisions   int64 // that have events
	bytes       int
}

func extentOf(events []*mvccpb.Event) (x extent) {
	x.add(events)
	return x
}

func (x *extent) add(events []*mvccpb.Event) {
	for _, ev := range events {
		rev := ev.GetKv().GetModRevision()
		if x.revisions == 0 {
			x.first = rev
		}
		if x.revisions == 0 || rev != x.last {
			x.revisions++
		}
		x.last = rev
		x.bytes += eventSize(ev)
	}
}

// span returns the number of revisions, with and without events.
func (x *extent) span() int64 { return x.last - x.first + 1 }

// ahead estimates, from the density so far, how many revisions with events follow until the
// store's revision.
func (x *extent) ahead(head int64) int64 {
	if x.span() <= 0 || head <= x.last {
		return 0
	}
	return x.revisions * (head - x.last) / x.span()
}

// bytesAhead estimates how many bytes follow in the same response until the store's
// revision.
func (x *extent) bytesAhead(head int64) int {
	if x.revisions == 0 {
		return 0
	}
	return int(min(x.ahead(head), fullBatch-x.revisions)) * (x.bytes / int(x.revisions))
}
