package watch

import (
	"fmt"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3/internal/lineage"
)

// phase is what a watcher is doing.
type phase uint8

const (
	// opening: no server has created it yet.
	opening phase = iota
	// following: events come as they happen, or as they happened.
	following
	// paused: its caller is far behind, and nothing is asked of the server.
	paused
	// ended: it has had its last response, or its caller has left.
	ended
)

// watcher is a watch of one caller. All but its buffer is guarded by the lock
// of the shard that it is on.
type watcher struct {
	req    Request
	buffer buffer
	shard  atomic.Pointer[shard]

	phase    phase
	current  *subscription    // parked while paused
	catchup  *catchup         // nil unless far behind
	resumed  bool             // since it was paused nothing has come
	limit    int              // the bytes past which it paused
	unsplit  bool             // it must not be split again
	refusals uint8            // of tokens, in a row
	deniedBy *shard           // the stream that denied it before this one; nil if none did
	history  *lineage.History // that it is from; nil if that is not known
	ready    chan struct{}    // closed when Watch may return; nil after that
	unlisten func() bool      // stops listening to the caller's context
}

func newWatcher(req Request, sink Sink, budget *Budget) *watcher {
	w := &watcher{req: req, ready: make(chan struct{})}
	w.buffer.sink, w.buffer.budget = sink, budget
	w.current = newSubscription(&w.req, w, req.Rev)
	return w
}

// session is that of the watcher's shard, whose lock is held.
func (w *watcher) session() *session { return w.shard.Load().session }

// created implements owner.
func (w *watcher) created(s *subscription, h *pb.ResponseHeader) {
	w.refusals, w.deniedBy = 0, nil
	w.shard.Load().continueHistory(w, s, h)
	w.shard.Load().accept()
	if w.catchup != nil && !w.session().splittable() {
		w.rejoin()
	}
	if w.phase != opening {
		return
	}
	w.phase = following
	if w.req.CreatedNotify {
		w.push(Response{Header: header(h), Created: true, Proven: w.session().splittable()})
	}
	w.release()
}

// release lets the call of Watch return.
func (w *watcher) release() {
	if w.ready != nil {
		close(w.ready)
		w.ready = nil
	}
}

// events implements owner.
func (w *watcher) events(s *subscription, h *pb.ResponseHeader, events []*mvccpb.Event) {
	w.resumed = false
	if w.catchup != nil {
		w.catchup.events(s, h, events)
		w.afterCatchup()
		return
	}
	w.push(Response{Header: h, Events: events})
	w.considerPause()
	if w.phase == following {
		w.considerCatchup(h, events)
	}
}

// progress implements owner.
func (w *watcher) progress(s *subscription, h *pb.ResponseHeader, notify bool) {
	w.resumed = false
	if w.catchup != nil {
		w.catchup.progress(s, h.GetRevision())
		w.afterCatchup()
		return
	}
	if notify {
		w.push(Response{Header: h, Proven: w.session().splittable()})
		w.considerPause()
	}
}

// refused implements owner.
func (w *watcher) refused(s *subscription, resp *pb.WatchResponse) {
	if !w.shard.Load().renew(w, resp) {
		w.canceled(s, resp)
	}
}

// canceled implements owner.
func (w *watcher) canceled(s *subscription, resp *pb.WatchResponse) {
	if w.catchup != nil {
		if resp = w.catchup.canceled(s, resp); resp == nil {
			return
		}
	}
	w.end(w.lastResponse(resp))
}

// lastResponse is what the caller gets when the server has refused or cancelled
// the watch.
func (w *watcher) lastResponse(resp *pb.WatchResponse) Response {
	r := Response{
		Header:          header(resp.GetHeader()),
		Canceled:        true,
		CompactRevision: resp.CompactRevision,
		CancelReason:    w.reason(resp),
	}
	if resp.Created && resp.CancelReason != "" {
		r.Err = refusal(resp.CancelReason)
	}
	return r
}

// reason is the server's, and an explanation where it was the caller's pace
// that cost it the events.
func (w *watcher) reason(resp *pb.WatchResponse) string {
	if resp.CompactRevision == 0 || !w.resumed {
		return resp.CancelReason
	}
	return fmt.Sprintf("etcdclient: the watch paused at revision %d because its reader had left more than %d bytes unread (Config.MaxWatchBufferBytes, MaxTotalWatchBufferBytes); revisions before %d have been compacted since",
		w.current.next, w.limit, resp.CompactRevision)
}

func header(h *pb.ResponseHeader) *pb.ResponseHeader {
	if h == nil {
		return &pb.ResponseHeader{}
	}
	return h
}

func (w *watcher) push(r Response) {
	r.Header = header(r.Header)
	w.buffer.push(r, w.startDelivery)
}

// considerPause takes the watch off the stream when too much waits for the caller. The
// server then has no watcher for it.
func (w *watcher) considerPause() {
	sh := w.shard.Load()
	limit := sh.engine.allowance()
	if w.phase != following || w.buffer.held() <= limit {
		return
	}
	next := w.stop()
	w.phase, w.limit = paused, limit
	w.current = newSubscription(&w.req, w, next)
	sh.later = append(sh.later, func() { sh.engine.logPause(&w.req, next, limit) })
	if sh.bulk {
		sh.later = append(sh.later, func() { sh.engine.move(w, sh, ordinary) })
	}
	if !w.buffer.awaitRoom(limit / 2) {
		w.resume()
	}
}

// stop removes the watch from its session and returns the first revision that
// it has not delivered.
func (w *watcher) stop() int64 {
	if w.catchup != nil {
		next := w.catchup.abandon()
		w.endCatchup()
		return next
	}
	w.session().remove(w.current)
	return w.current.next
}

// resume puts a paused watch back on the stream.
func (w *watcher) resume() {
	if w.phase != paused {
		return
	}
	w.phase = following
	w.resumed = true
	w.session().add(w.current)
}

// end gives the caller its last response.
func (w *watcher) end(r Response) {
	if w.phase == ended {
		return
	}
	w.detach()
	w.buffer.finish(r, w.startDelivery)
	w.release()
	if w.unlisten != nil {
		w.unlisten()
	}
}

// detach takes the watch off its shard for good.
func (w *watcher) detach() {
	w.stop()
	w.phase = ended
	delete(w.shard.Load().watchers, w)
}

// startDelivery runs the buffer's goroutine.
func (w *watcher) startDelivery() {
	engine := w.shard.Load().engine
	engine.running.Go(func() {
		w.buffer.deliver(engine.closed, engine.slowness(&w.req), func() {
			w.locked(func(sh *shard) {
				w.resume()
				sh.signal()
			})
		})
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

// cancel ends the watch because its caller has left.
func (w *watcher) cancel() {
	w.locked(func(sh *shard) {
		if w.phase != ended {
			w.detach()
		}
		w.buffer.drop()
		w.release()
		sh.signal()
	})
	sh := w.shard.Load()
	sh.engine.retire(sh)
}
