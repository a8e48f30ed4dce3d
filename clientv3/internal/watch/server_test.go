package watch

import (
	"bytes"
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// denied is a key that may not be watched.
const denied = "denied"

// refusedID is kine's refusal of a watch id chosen by the client.
const refusedID = "rpc error: code = InvalidArgument desc = etcdserver: unsupported options in watch request"

// emptyRange is etcd's refusal of an empty range.
const emptyRange = "mvcc: watcher range is empty"

// server models the server's side of one watch stream, step by step. Requests are handled in order. Confirmations and
// events have separate queues, which are emptied in any order. Events of an unconfirmed watcher wait for the
// confirmation, and the queue of events is bounded.
type server struct {
	hist         *history
	revisions    int  // per batch for a watcher that is behind
	room         int  // capacity of the queue of events
	fragment     int  // events per fragment
	proxy        bool // chooses the watch ids
	nameless     bool // its headers have only a revision
	kine         bool // refuses chosen ids, and answers progress requests out of order
	swallowing   bool // a proxy drops progress requests
	unresponsive bool // answers nothing
	lax          bool // accepts an empty range
	early        bool // answers progress requests before it has sent all events, as old servers do

	watchers  []*served
	ids       map[int64]bool // all ids ever used
	confirmed map[int64]bool
	held      map[int64][]*pb.WatchResponse // events waiting for the confirmation
	control   []*pb.WatchResponse
	events    []*pb.WatchResponse
	sent      []*pb.WatchResponse // in flight to the client
}

type served struct {
	id, start int64
	next      int64 // the first unsent revision
	req       *Request
	synced    bool
	compacted bool
	blocked   *pb.WatchResponse // waits for room in the queue
}

func newServer(h *history) *server {
	return &server{
		hist: h, revisions: 1000, room: 128, fragment: 2,
		ids: make(map[int64]bool), confirmed: make(map[int64]bool), held: make(map[int64][]*pb.WatchResponse),
	}
}

var errIDReused = errors.New("a watch id was used twice on a stream")

// handle processes a request. It calls meanwhile between the creation of a watcher and reading the revision for its
// confirmation.
func (sv *server) handle(req *pb.WatchRequest, meanwhile func()) error {
	switch {
	case sv.unresponsive:
	case req.GetCreateRequest() != nil:
		return sv.create(req.GetCreateRequest(), meanwhile)
	case req.GetCancelRequest() != nil:
		sv.cancel(req.GetCancelRequest().WatchId)
	case req.GetProgressRequest() != nil:
		sv.answer()
	}
	return nil
}

func (sv *server) create(r *pb.WatchCreateRequest, meanwhile func()) error {
	id := r.WatchId
	switch {
	case sv.kine && id != 0:
		sv.control = append(sv.control, refused(refusedID))
		return nil
	case sv.kine:
		id = 1000 + int64(len(sv.ids)) // counted over all streams
	case sv.proxy:
		id = int64(len(sv.ids))
	case sv.ids[id]:
		return errIDReused
	}
	if string(r.Key) == denied {
		sv.control = append(sv.control, &pb.WatchResponse{
			Header: at(sv.hist.rev()), WatchId: invalidID, Created: true, Canceled: true, CancelReason: "permission denied",
		})
		return nil
	}
	if bytes.Equal(r.RangeEnd, r.Key) && !sv.lax {
		sv.control = append(sv.control, refused(emptyRange))
		return nil
	}
	sv.ids[id] = true
	w := &served{
		id: id, start: r.StartRevision, next: r.StartRevision,
		req: &Request{Key: r.Key, End: r.RangeEnd, Fragment: r.Fragment},
	}
	w.synced = w.start == 0 || w.start > sv.hist.rev()
	if w.start == 0 {
		w.next = sv.hist.rev() + 1
	}
	sv.watchers = append(sv.watchers, w)
	if meanwhile != nil {
		meanwhile()
	}
	header := at(sv.hist.rev())
	if sv.nameless {
		header = &pb.ResponseHeader{Revision: header.Revision}
	}
	sv.control = append(sv.control, &pb.WatchResponse{Header: header, WatchId: id, Created: true})
	return nil
}

func (sv *server) answer() {
	switch {
	case sv.swallowing:
	case sv.kine && len(sv.watchers) == 0:
		sv.enqueue(progressed(invalidID, sv.hist.rev()))
	case sv.early:
		sv.control = append(sv.control, progressed(invalidID, sv.hist.rev()))
	default:
		sv.progress(sv.watchers, invalidID)
	}
}

func (sv *server) find(id int64) *served {
	for _, w := range sv.watchers {
		if w.id == id {
			return w
		}
	}
	return nil
}

func (sv *server) cancel(id int64) {
	w := sv.find(id)
	if w == nil {
		return
	}
	sv.watchers = slices.DeleteFunc(sv.watchers, func(o *served) bool { return o == w })
	sv.control = append(sv.control, &pb.WatchResponse{Header: at(sv.hist.rev()), WatchId: id, Canceled: true})
}

// progress answers for all watchers if there are any, all are up to date, and the queue has room.
func (sv *server) progress(watchers []*served, id int64) {
	for _, w := range watchers {
		if !w.synced || sv.hist.rev() < w.start {
			return
		}
	}
	if len(watchers) > 0 {
		sv.enqueue(&pb.WatchResponse{Header: at(sv.hist.rev()), WatchId: id})
	}
}

func (sv *server) enqueue(resp *pb.WatchResponse) bool {
	if len(sv.events) >= sv.room {
		return false
	}
	sv.events = append(sv.events, resp)
	return true
}

// notify sends the latest revision to watchers that are up to date.
func (sv *server) notify() {
	rev := sv.hist.rev()
	for _, w := range sv.watchers {
		events := sv.hist.between(w.req, rev, rev)
		if !w.synced || rev < w.next || len(events) == 0 {
			continue
		}
		sv.sendTo(w, &pb.WatchResponse{Header: at(rev), WatchId: w.id, Events: events})
		w.next = rev + 1
	}
}

func (sv *server) sendTo(w *served, resp *pb.WatchResponse) {
	if !sv.enqueue(resp) {
		w.synced, w.blocked = false, resp
	}
}

// sync sends a batch to each watcher that is behind.
func (sv *server) sync() {
	for _, w := range sv.watchers {
		switch {
		case w.synced || w.compacted:
		case w.blocked != nil:
			if sv.enqueue(w.blocked) {
				w.blocked = nil
				w.synced = w.next > sv.hist.rev()
			}
		case w.next < sv.hist.compacted:
			w.compacted = sv.enqueue(&pb.WatchResponse{
				Header: at(0), WatchId: w.id, Canceled: true, CompactRevision: sv.hist.compacted,
			})
		default:
			sv.catchUp(w)
		}
	}
}

func (sv *server) catchUp(w *served) {
	events, more := sv.hist.batch(w.req, w.next, sv.revisions)
	w.next, w.synced = sv.hist.rev()+1, more == 0
	if more != 0 {
		w.next = more
	}
	if len(events) > 0 {
		sv.sendTo(w, &pb.WatchResponse{Header: at(sv.hist.rev()), WatchId: w.id, Events: events})
	}
}

// sendControl sends the oldest confirmation, and the events waiting for it.
func (sv *server) sendControl() {
	if len(sv.control) == 0 {
		return
	}
	c := sv.control[0]
	sv.control = sv.control[1:]
	sv.sent = append(sv.sent, c)
	switch {
	case c.WatchId == invalidID:
	case c.Canceled:
		delete(sv.confirmed, c.WatchId)
	case c.Created:
		sv.confirmed[c.WatchId] = true
		sv.sent = append(sv.sent, sv.held[c.WatchId]...)
		delete(sv.held, c.WatchId)
	}
}

// sendEvents sends the oldest events or progress.
func (sv *server) sendEvents() {
	if len(sv.events) == 0 {
		return
	}
	r := sv.events[0]
	sv.events = sv.events[1:]
	if r.WatchId != invalidID && !sv.confirmed[r.WatchId] {
		sv.held[r.WatchId] = append(sv.held[r.WatchId], r)
		return
	}
	if w := sv.find(r.WatchId); w == nil || !w.req.Fragment || len(r.Events) <= sv.fragment {
		sv.sent = append(sv.sent, r)
		return
	}
	for rest := r.Events; len(rest) > 0; {
		n := min(sv.fragment, len(rest))
		sv.sent = append(sv.sent, &pb.WatchResponse{
			Header: r.Header, WatchId: r.WatchId, Events: rest[:n:n], Fragment: n < len(rest),
		})
		rest = rest[n:]
	}
}

// receive returns the next response that arrives at the client, or nil.
func (sv *server) receive() *pb.WatchResponse {
	if len(sv.sent) == 0 {
		return nil
	}
	r := sv.sent[0]
	sv.sent = sv.sent[1:]
	return r
}

// idle reports whether the server has nothing to send.
func (sv *server) idle() bool {
	behind := slices.ContainsFunc(sv.watchers, func(w *served) bool { return !w.synced && !w.compacted })
	return !behind && len(sv.control)+len(sv.events)+len(sv.sent) == 0
}
