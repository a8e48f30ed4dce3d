package fakeetcd

import (
	"errors"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/keyrange"
)

// noWatcher is the watch ID of responses that belong to no watcher: refused
// ones, and progress for all.
const noWatcher = -1

// Why etcd refuses a watcher, word for word: clients see only the text.
var (
	errEmptyRange  = errors.New("mvcc: watcher range is empty")
	errDuplicateID = errors.New("mvcc: duplicate watch ID provided on the WatchStream")
)

func watchService() map[string]service {
	return map[string]service{"Watch": streaming(open, watch)}
}

// watcher is one watch on a stream.
type watcher struct {
	id     int64
	keys   keyrange.Range
	prevKV bool
	drop   map[mvccpb.Event_EventType]bool
	start  int64 // as requested
	next   int64 // first revision that was not sent yet
}

// watchStream is the watchers of one stream, by their IDs.
type watchStream struct {
	call     *Call
	watchers map[int64]*watcher
	nextID   int64
}

// watch serves a stream. One goroutine does everything, so what it sends is in
// order: first the events up to a request, then the answer to it.
func watch(c *Call) error {
	ws := &watchStream{call: c, watchers: make(map[int64]*watcher)}
	requests, lost := c.requests(), c.leaderLost()
	for {
		changed := c.cluster.store.Changed()
		if err := ws.sendEvents(); err != nil {
			return err
		}
		var err error
		select {
		case req, ok := <-requests:
			if !ok {
				// The client has nothing more to ask. Events go on.
				requests = nil
				continue
			}
			err = ws.handle(req)
		case <-changed:
		case <-lost:
			err = rpctypes.ErrGRPCNoLeader
		case <-c.Context().Done():
			err = c.Context().Err()
		}
		if err != nil {
			return err
		}
	}
}

func (ws *watchStream) handle(req proto.Message) error {
	// What happened before the request comes before the answer to it.
	if err := ws.sendEvents(); err != nil {
		return err
	}
	switch r := req.(*pb.WatchRequest).RequestUnion.(type) {
	case *pb.WatchRequest_CreateRequest:
		return ws.create(r.CreateRequest)
	case *pb.WatchRequest_CancelRequest:
		return ws.cancel(r.CancelRequest.WatchId)
	case *pb.WatchRequest_ProgressRequest:
		return ws.progress()
	default:
		return nil
	}
}

func (ws *watchStream) send(resp *pb.WatchResponse) error {
	if resp.Header == nil {
		resp.Header = ws.call.header()
	}
	return ws.call.send(resp)
}

func (ws *watchStream) create(r *pb.WatchCreateRequest) error {
	if len(r.Key) == 0 {
		// The empty key means the smallest that exists.
		r.Key = []byte{0}
	}
	if reason := ws.refuse(r); reason != nil {
		return ws.send(&pb.WatchResponse{
			WatchId: noWatcher, Created: true, Canceled: true, CancelReason: reason.Error(),
		})
	}
	header := ws.call.header()
	w := &watcher{
		id: ws.chooseID(r.WatchId), keys: keyrange.Of(r.Key, r.RangeEnd), prevKV: r.PrevKv,
		drop: make(map[mvccpb.Event_EventType]bool), start: r.StartRevision, next: r.StartRevision,
	}
	if w.next == 0 {
		w.next = header.Revision + 1
	}
	for _, f := range r.Filters {
		switch f {
		case pb.WatchCreateRequest_NOPUT:
			w.drop[mvccpb.Event_PUT] = true
		case pb.WatchCreateRequest_NODELETE:
			w.drop[mvccpb.Event_DELETE] = true
		}
	}
	ws.watchers[w.id] = w
	return ws.send(&pb.WatchResponse{Header: header, WatchId: w.id, Created: true})
}

// refuse says why a watcher cannot be created, nil if it can.
func (ws *watchStream) refuse(r *pb.WatchCreateRequest) error {
	if r.StartRevision < 0 {
		return rpctypes.ErrCompacted
	}
	if err := ws.call.permit(authpb.Permission_READ, r.Key, r.RangeEnd); err != nil {
		return err
	}
	if keyrange.Of(r.Key, r.RangeEnd).Empty() {
		return errEmptyRange
	}
	if r.WatchId != 0 && ws.watchers[r.WatchId] != nil {
		return errDuplicateID
	}
	return nil
}

// chooseID returns the ID that the client wants, or for 0 the next free one.
func (ws *watchStream) chooseID(want int64) int64 {
	if want != 0 {
		return want
	}
	for ws.watchers[ws.nextID] != nil {
		ws.nextID++
	}
	ws.nextID++
	return ws.nextID - 1
}

// cancel ignores an ID that is not in use, as etcd does.
func (ws *watchStream) cancel(id int64) error {
	if ws.watchers[id] == nil {
		return nil
	}
	delete(ws.watchers, id)
	return ws.send(&pb.WatchResponse{WatchId: id, Canceled: true})
}

// progress answers for all watchers together. Like etcd it says nothing if
// there is none, or if one is to start at a revision still to come.
func (ws *watchStream) progress() error {
	header := ws.call.header()
	for _, w := range ws.watchers {
		if header.Revision < w.start {
			return nil
		}
		header.Revision = min(header.Revision, w.next-1)
	}
	if len(ws.watchers) == 0 {
		return nil
	}
	return ws.send(&pb.WatchResponse{Header: header, WatchId: noWatcher})
}

// sendEvents brings every watcher up to date, each with one response.
func (ws *watchStream) sendEvents() error {
	for _, id := range slices.Sorted(maps.Keys(ws.watchers)) {
		if err := ws.advance(ws.watchers[id]); err != nil {
			return err
		}
	}
	return nil
}

func (ws *watchStream) advance(w *watcher) error {
	events, rev, compacted := ws.call.cluster.store.Events(w.keys, w.next, w.prevKV)
	if compacted != 0 {
		delete(ws.watchers, w.id)
		header := &pb.ResponseHeader{}
		ws.call.fill(header, false)
		return ws.send(&pb.WatchResponse{
			Header: header, WatchId: w.id, Canceled: true, CompactRevision: compacted,
		})
	}
	w.next = max(w.next, rev+1)
	events = slices.DeleteFunc(events, func(e *mvccpb.Event) bool { return w.drop[e.Type] })
	if len(events) == 0 {
		return nil
	}
	header := &pb.ResponseHeader{Revision: rev}
	ws.call.fill(header, true)
	return ws.send(&pb.WatchResponse{Header: header, WatchId: w.id, Events: events})
}
