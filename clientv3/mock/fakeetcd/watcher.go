package fakeetcd

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/internal/semantics"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/store"
)

type watcher struct {
	id       int64
	keys     semantics.Range
	prevKV   bool
	fragment bool
	notify   bool
	drop     map[mvccpb.Event_EventType]bool
	start    int64 // as requested
	next     int64 // the first revision not sent yet

	// behind says that the watcher started in the past and has not caught up.
	behind bool
	// compacted says that a compaction cancelled the watcher. Its ID is in use
	// until the client cancels it.
	compacted bool
	// quiet says that the watcher got no event since the last tick.
	quiet bool
}

// newWatcher returns the watcher for r, with the store at rev.
func newWatcher(r *pb.WatchCreateRequest, id, rev int64) *watcher {
	w := &watcher{
		id: id, keys: semantics.Of(r.Key, r.RangeEnd),
		prevKV: r.PrevKv, fragment: r.Fragment, notify: r.ProgressNotify,
		drop:  make(map[mvccpb.Event_EventType]bool),
		start: r.StartRevision, next: r.StartRevision,
		behind: r.StartRevision != 0 && r.StartRevision <= rev,
		quiet:  true,
	}
	if w.next == 0 {
		w.next = rev + 1
	}
	for _, f := range r.Filters {
		switch f {
		case pb.WatchCreateRequest_NOPUT:
			w.drop[mvccpb.Event_PUT] = true
		case pb.WatchCreateRequest_NODELETE:
			w.drop[mvccpb.Event_DELETE] = true
		}
	}
	return w
}

// upToDate reports whether w can receive progress while the store is at rev.
func (w *watcher) upToDate(rev int64) bool { return !w.behind && !w.compacted && rev >= w.start }

// advance sends new events: one batch to a watcher that is behind, and one response
// per revision to others.
func (ws *watchStream) advance(w *watcher) error {
	if w.compacted {
		return nil
	}
	q := store.Query{Keys: w.keys, From: w.next, PrevKV: w.prevKV, Compacted: !w.behind}
	if w.behind {
		q.Limit = ws.options.BatchRevisions
	}
	found := locked(ws.call.cluster, func() store.Events { return ws.call.cluster.store.Events(q) })
	if found.Compacted != 0 {
		w.compacted, w.behind = true, false
		header := ws.call.header(0)
		header.Revision = 0
		return ws.send(&pb.WatchResponse{
			Header: header, WatchId: w.id, Canceled: true, CompactRevision: found.Compacted,
		})
	}
	if w.behind {
		return ws.sendBatch(w, found)
	}
	w.next = max(w.next, found.Revision+1)
	for len(found.Events) > 0 {
		n := sameRevision(found.Events)
		if err := ws.sendTo(w, found.Events[:n], found.Events[0].Kv.ModRevision); err != nil {
			return err
		}
		found.Events = found.Events[n:]
	}
	return nil
}

// sendBatch sends a response whose header is ahead of its events.
func (ws *watchStream) sendBatch(w *watcher, found store.Events) error {
	w.next, w.behind = found.Revision+1, found.More != 0
	if w.behind {
		w.next = found.More
	}
	return ws.sendTo(w, found.Events, found.Revision)
}

// sameRevision counts the leading events with the same revision.
func sameRevision(events []*mvccpb.Event) int {
	n := slices.IndexFunc(events, func(e *mvccpb.Event) bool { return e.Kv.ModRevision != events[0].Kv.ModRevision })
	if n < 0 {
		return len(events)
	}
	return n
}

// sendTo sends the events that pass w's filters, if any.
func (ws *watchStream) sendTo(w *watcher, events []*mvccpb.Event, rev int64) error {
	events = slices.DeleteFunc(slices.Clone(events), func(e *mvccpb.Event) bool { return w.drop[e.Type] })
	if len(events) == 0 {
		return nil
	}
	w.quiet = false
	resp := &pb.WatchResponse{Header: ws.call.header(rev), WatchId: w.id, Events: events}
	if !w.fragment {
		return ws.send(resp)
	}
	for _, part := range fragments(resp, ws.options.FragmentBytes) {
		if err := ws.send(part); err != nil {
			return err
		}
	}
	return nil
}

// fragments splits a response of limit bytes or more into smaller parts, between
// events. All but the last are marked.
func fragments(resp *pb.WatchResponse, limit int) []*pb.WatchResponse {
	if proto.Size(resp) < limit {
		return []*pb.WatchResponse{resp}
	}
	var parts []*pb.WatchResponse
	for rest := resp.Events; len(rest) > 0; {
		part := &pb.WatchResponse{Header: proto.CloneOf(resp.Header), WatchId: resp.WatchId, Fragment: true}
		n, size := 0, proto.Size(part)
		for n < len(rest) {
			size += proto.Size(&pb.WatchResponse{Events: rest[n : n+1]})
			if n > 0 && size >= limit {
				break
			}
			n++
		}
		part.Events, rest = rest[:n], rest[n:]
		parts = append(parts, part)
	}
	parts[len(parts)-1].Fragment = false
	return parts
}
