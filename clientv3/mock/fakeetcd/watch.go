package fakeetcd

import (
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"
)

// noWatcher is the watch ID of responses that belong to no watcher: refusals, and
// progress for all.
const noWatcher = -1

var watchService = map[string]service{"Watch": streaming(open, watch)}

// watchStream holds the watchers of one stream by ID.
type watchStream struct {
	call     *Call
	options  WatchOptions
	watchers map[int64]*watcher
	nextID   int64
}

// watch serves a stream. One goroutine does all sends, so they are in order: first
// the events up to a request, then its answer.
func watch(c *Call) error {
	options := locked(c.cluster, func() WatchOptions { return c.cluster.watchOptions })
	ws := &watchStream{call: c, options: options, watchers: make(map[int64]*watcher)}
	var progress <-chan time.Time
	if interval := ws.options.ProgressInterval; interval > 0 {
		progress = time.Tick(interval)
	}
	requests, lost := c.requests(), c.leaderLost()
	for {
		changed := locked(c.cluster, c.cluster.store.Changed)
		if err := ws.sendEvents(); err != nil {
			return err
		}
		if ws.behind() {
			now := make(chan struct{})
			close(now)
			changed = now
		}
		var err error
		select {
		case req, ok := <-requests:
			if !ok {
				// The client has half-closed the stream. Events continue.
				requests = nil
				continue
			}
			err = ws.handle(req)
		case <-changed:
		case <-progress:
			err = ws.notifyProgress()
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
	// Events before the request precede its answer.
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
		resp.Header = ws.call.header(0)
	}
	if ws.options.Kine {
		resp.Header = &pb.ResponseHeader{Revision: resp.Header.Revision}
	}
	return ws.call.send(resp)
}

// cancel ignores an ID that is not in use, as etcd does.
func (ws *watchStream) cancel(id int64) error {
	if ws.watchers[id] == nil {
		return nil
	}
	delete(ws.watchers, id)
	return ws.send(&pb.WatchResponse{WatchId: id, Canceled: true})
}

// progress answers for all watchers together. Like etcd it sends no answer if there
// is no watcher, or if one is not up to date.
func (ws *watchStream) progress() error {
	if len(ws.watchers) == 0 && !ws.options.Kine {
		return nil
	}
	header := ws.call.header(0)
	for _, w := range ws.watchers {
		if !w.upToDate(header.Revision) {
			return nil
		}
		header.Revision = min(header.Revision, w.next-1)
	}
	return ws.send(&pb.WatchResponse{Header: header, WatchId: noWatcher})
}

// notifyProgress sends progress to each watcher with progress_notify.
func (ws *watchStream) notifyProgress() error {
	for _, w := range ws.inOrder() {
		header := ws.call.header(0)
		header.Revision = min(header.Revision, w.next-1)
		due := w.notify && w.quiet && w.upToDate(header.Revision)
		w.quiet = true
		if !due {
			continue
		}
		if err := ws.send(&pb.WatchResponse{Header: header, WatchId: w.id}); err != nil {
			return err
		}
	}
	return nil
}

// sendEvents sends all pending events to watchers that have caught up, and one
// response to each of the others.
func (ws *watchStream) sendEvents() error {
	for _, w := range ws.inOrder() {
		if err := ws.advance(w); err != nil {
			return err
		}
	}
	return nil
}

// behind reports whether a watcher has not caught up.
func (ws *watchStream) behind() bool {
	return slices.ContainsFunc(ws.inOrder(), func(w *watcher) bool { return w.behind })
}

func (ws *watchStream) inOrder() []*watcher {
	return slices.SortedFunc(maps.Values(ws.watchers), func(a, b *watcher) int { return int(a.id - b.id) })
}
