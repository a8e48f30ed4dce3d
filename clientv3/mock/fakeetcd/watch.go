package fakeetcd

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/internal/semantics"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/store"
)

// Defaults of an etcd server.
const (
	// defaultFragmentBytes is --max-request-bytes plus 512 KiB of overhead.
	defaultFragmentBytes = maxRecvBytes
	// defaultBatchRevisions is a constant of the server.
	defaultBatchRevisions = 1000
)

// WatchOptions configures how the members serve watches. The zero value is etcd's
// default, except that progress is sent only on request.
type WatchOptions struct {
	// FragmentBytes is the size from which a response is fragmented, for watches
	// with fragment set. The default is 2 MiB: etcd's --max-request-bytes of 1.5
	// MiB plus 512 KiB. A fragment has at least one event, however large.
	FragmentBytes int

	// BatchRevisions bounds the revisions in one response to a watch that starts in
	// the past. The default is 1000. Between two responses the stream may serve its
	// other watches and requests; there is no pause, while etcd pauses for up to
	// 100 ms. A watch that has caught up gets each revision in a separate response.
	BatchRevisions int

	// ProgressInterval is the time between progress notifications of a watch with
	// progress_notify; a notification is skipped if there were events since the
	// last one. The default, 0, means never; etcd's is 10 minutes plus up to 10 %.
	ProgressInterval time.Duration

	// Kine makes the members serve watches like kine, the server of k3s: they
	// refuse a client's watch ID, count IDs over all streams, always send the
	// previous value, answer progress requests even without a watch, and send
	// headers without cluster and member ID.
	Kine bool
}

// SetWatchOptions sets the options of watch streams opened from now on. It fails if
// a number is negative.
func (c *Cluster) SetWatchOptions(o WatchOptions) error {
	if o.FragmentBytes < 0 || o.BatchRevisions < 0 || o.ProgressInterval < 0 {
		return fmt.Errorf("fakeetcd: %+v has a negative number: 0 is the default", o)
	}
	o.FragmentBytes = cmp.Or(o.FragmentBytes, defaultFragmentBytes)
	o.BatchRevisions = cmp.Or(o.BatchRevisions, defaultBatchRevisions)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchOptions = o
	return nil
}

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

// The texts of etcd's refusals, verbatim: clients see only the text.
var (
	errEmptyRange  = errors.New("mvcc: watcher range is empty")
	errDuplicateID = errors.New("mvcc: duplicate watch ID provided on the WatchStream")

	// errChosenID is kine's refusal of a watch ID that the client chose.
	errChosenID = errors.New("rpc error: code = InvalidArgument desc = etcdserver: unsupported options in watch request")
)

func (ws *watchStream) create(r *pb.WatchCreateRequest) error {
	if len(r.Key) == 0 {
		// The empty key means the smallest that exists.
		r.Key = []byte{0}
	}
	if reason := ws.refuse(r); reason != nil {
		return ws.send(&pb.WatchResponse{WatchId: noWatcher, Created: true, Canceled: true, CancelReason: reason.Error()})
	}
	id := ws.chooseID(r.WatchId)
	if ws.options.Kine {
		id, r.PrevKv = ws.call.cluster.kineIDs.Add(1), true
	}
	header := ws.call.header(0)
	ws.watchers[id] = newWatcher(r, id, header.Revision)
	return ws.send(&pb.WatchResponse{Header: header, WatchId: id, Created: true})
}

// refuse returns why a watcher cannot be created, nil if it can.
func (ws *watchStream) refuse(r *pb.WatchCreateRequest) error {
	if ws.options.Kine && r.WatchId != 0 {
		return errChosenID
	}
	if r.StartRevision < 0 {
		return rpctypes.ErrCompacted
	}
	ws.call.cluster.mu.Lock()
	defer ws.call.cluster.mu.Unlock()
	if err := ws.call.permit(authpb.Permission_READ, r.Key, r.RangeEnd); err != nil {
		return err
	}
	if semantics.Of(r.Key, r.RangeEnd).Empty() {
		return errEmptyRange
	}
	if r.WatchId != 0 && ws.watchers[r.WatchId] != nil {
		return errDuplicateID
	}
	return nil
}

// chooseID returns the client's chosen ID, or for 0 the next free one.
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
