package cache

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/clientv3/internal/reply"
	"github.com/quorate/quorate/clientv3/internal/semantics"
)

const (
	// progressPause is the first pause between requests for the progress of local watches that are served by the server;
	// it doubles up to maxProgressPause. Such a request costs all of them a response.
	progressPause    = time.Second
	maxProgressPause = time.Minute
)

// watcher serves watches from a cache.
type watcher struct {
	c      *Cache
	ctx    context.Context
	cancel context.CancelFunc
}

// Watcher returns a clientv3.Watcher whose watches within a prefix of the cache share the cache's own one at the server:
//
//	client.Watcher = c.Watcher()
//
// They are what [clientv3.Watcher] promises: ordered, without gaps or duplicates, and never split within a revision. They
// end for the same reasons. The header of events has the revision of the last of them; a watch that resumes after it, or
// after progress, misses nothing. Watches share events and headers, which must not be changed.
//
// A watch without clientv3.WithRev delivers what follows the present revision of the cache, which may be a little below that of the
// store, as with a member that is behind. With clientv3.WithPrevKV an event has the previous value that the cache held, even if the
// server has compacted it; while the server serves a watch, the event has what the server sends.
//
// The latest events are kept ([Config.MaxEvents]). A watch that needs earlier ones, because of its revision or because its reader is slow, is served by
// a watch of its own at the server, which knows what is compacted, until it has reached what is kept. So a slow reader delays no other, loses nothing,
// and holds one response in memory while no more than MaxEvents events wait for it; an idle watch has no goroutine. The server also serves all watches
// while a prefix is not loaded, and if its version loses events of watches; a new watch first waits up to [Config.MaxWait] for both to be ruled out.
// When the server has compacted what the cache's watch needs, watches end with rpctypes.ErrCompacted. When a permission is withdrawn, the server
// decides which may go on.
//
// Watches of ranges that are not within one prefix go to the client's Watcher, as do those with outgoing gRPC metadata,
// clientv3.WithRequireLeader included: the cache goes on without a leader.
//
// RequestProgress asks the server once for all. Close ends the watches of this Watcher, and so does the end of the cache.
func (c *Cache) Watcher() clientv3.Watcher {
	for _, v := range c.views {
		v.window.mu.Lock()
		v.window.kept = true
		v.window.mu.Unlock()
	}
	w := &watcher{c: c}
	w.ctx, w.cancel = context.WithCancel(c.ctx)
	return w
}

func (w *watcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	op := clientv3.OpWatch(key, opts...)
	if ctx.Err() != nil || w.ctx.Err() != nil {
		over := make(chan clientv3.WatchResponse)
		close(over)
		return over
	}
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(w.ctx, cancel)
	v := w.c.viewOfWatch(ctx, op)
	if v == nil {
		context.AfterFunc(ctx, func() { unhook() })
		return w.c.watcher.Watch(ctx, key, opts...)
	}
	l := &localWatch{
		v: v, op: op, keys: rangeOf(op), ctx: ctx, from: op.Rev(),
		out: make(chan clientv3.WatchResponse, 1), wake: make(chan struct{}, 1), end: cancel,
	}
	v.awaitWindow(ctx)
	l.begin()
	context.AfterFunc(ctx, func() {
		unhook()
		v.window.leave(l)
	})
	return l.out
}

// viewOfWatch returns the view that serves a watch, nil if the server has to.
func (c *Cache) viewOfWatch(ctx context.Context, op clientv3.Op) *view {
	r := rangeOf(op)
	md, _ := metadata.FromOutgoingContext(ctx)
	if len(md) > 0 || len(op.KeyBytes()) == 0 || op.Rev() < 0 || r.Empty() {
		return nil
	}
	return c.viewOf(r)
}

func (w *watcher) RequestProgress(ctx context.Context) error {
	if w.ctx.Err() != nil {
		return ErrClosed
	}
	if md, _ := metadata.FromOutgoingContext(ctx); len(md) > 0 {
		return w.c.watcher.RequestProgress(ctx)
	}
	for _, v := range w.c.views {
		v.window.mu.Lock()
		v.window.requested = true
		v.window.mu.Unlock()
	}
	return errors.Join(w.c.watcher.RequestProgress(ctx), w.c.watcher.RequestProgress(w.c.streamContext(ctx)), w.c.watcher.RequestProgress(w.c.behindContext(ctx)))
}

func (w *watcher) Close() error {
	w.cancel()
	return nil
}

// awaitWindow waits, for MaxWait at most, while the prefix is loading or the version of the server is unknown.
func (v *view) awaitWindow(ctx context.Context) {
	_ = v.waitUntil(ctx, time.After(v.c.cfg.MaxWait), func() bool { // the watch is begun in any case
		v.mu.Lock()
		defer v.mu.Unlock()
		loading := v.snap.Load() == nil && v.err == nil
		unknown := v.snap.Load() != nil && errors.Is(v.versionDoubt, errVersionUnknown)
		return !loading && !unknown
	})
}

// localWatch is one watch of a caller. Unless it is parked it has a goroutine, which sends the events of the window, or those of a
// watch of its own at the server.
type localWatch struct {
	v    *view
	end  func() // ends ctx
	op   clientv3.Op
	keys semantics.Range
	ctx  context.Context
	out  chan clientv3.WatchResponse
	wake chan struct{} // holds a value when the window has changed

	// Of the goroutine.
	server     clientv3.WatchChan
	endServer  context.CancelFunc
	hasCreated bool

	// Guarded by window.mu while the watch is local, and of the goroutine while it is not.
	from  int64         // the revision that it delivers next, 0 while unknown
	point lineage.Point // of the last response

	// Guarded by window.mu.
	local    bool                    // it is served from the window
	parked   bool                    // it has delivered all, and has no goroutine
	progress bool                    // it has yet to deliver progress
	unsent   *clientv3.WatchResponse // what the goroutine sends first
	history  int64                   // that its position belongs to, 0 while unknown
	err      error
}

// indexKey returns where the watch is in a watchIndex.
func (l *localWatch) indexKey() string {
	if l.keys.Single() {
		return l.keys.Key
	}
	return ofRanges
}

// begin returns when the watch gets everything that happens from now on.
func (l *localWatch) begin() {
	created, ok := l.v.window.join(l)
	if ok {
		l.seen(created.Header)
		l.created(created)
	} else {
		l.open()
	}
	l.v.window.mu.Lock()
	defer l.v.window.mu.Unlock()
	l.startLocked()
}

// startLocked starts the goroutine.
func (l *localWatch) startLocked() {
	l.parked = false
	if !l.v.c.spawn(l.run) {
		l.v.window.closeLocked(l)
	}
}

// created sends the Created response, once and only if the caller requested one.
func (l *localWatch) created(resp clientv3.WatchResponse) bool {
	if l.hasCreated || !l.op.IsCreatedNotify() {
		return true
	}
	l.hasCreated = true
	return l.send(resp)
}

func (l *localWatch) seen(h *pb.ResponseHeader) {
	l.point = lineage.Point{Cluster: h.GetClusterId(), Revision: h.GetRevision()}
}

func (l *localWatch) send(resp clientv3.WatchResponse) bool {
	select {
	case l.out <- resp:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// run sends until there is nothing to send, or the watch ends.
func (l *localWatch) run() {
	if !l.work() {
		l.v.window.close(l)
		l.end()
	}
}

// work reports whether the watch is parked; otherwise it has ended.
func (l *localWatch) work() bool {
	if unsent := l.unsent; unsent != nil {
		l.unsent = nil
		if !l.send(*unsent) {
			return false
		}
	}
	if l.server != nil && !l.relay() {
		return false
	}
	for {
		switch resp, do := l.v.window.next(l); do {
		case stepSend:
			if !l.send(resp) {
				return false
			}
		case stepEnd:
			l.send(resp)
			return false
		case stepServer:
			l.open()
			if !l.relay() {
				return false
			}
		case stepOver:
			return false
		case stepWait:
			return true
		}
	}
}

// open opens a watch of its own at the server, unless the revisions that it needs are known to be compacted.
func (l *localWatch) open() {
	l.v.window.mu.Lock()
	compacted := l.v.window.compacted
	l.v.window.mu.Unlock()
	if l.from != 0 && l.from < compacted {
		ended := make(chan clientv3.WatchResponse, 1)
		ended <- clientv3.WatchResponse{Header: reply.Header(nil, compacted), Canceled: true, CompactRevision: compacted}
		l.server, l.endServer = ended, func() {}
		return
	}
	op := l.op
	clientv3.WithRev(l.from)(&op)
	clientv3.WithCreatedNotify()(&op)
	clientv3.WithProgressNotify()(&op)
	var ctx context.Context
	ctx, l.endServer = context.WithCancel(l.v.c.behindContext(l.ctx))
	l.v.c.stats.behind.Add(1)
	l.server = l.v.c.watcher.Watch(ctx, string(op.KeyBytes()), func(o *clientv3.Op) { *o = op })
}

// relay sends the events of the server's watch until the window has all later ones. It reports whether the watch goes on.
func (l *localWatch) relay() bool {
	defer func() {
		l.endServer()
		l.server = nil
	}()
	pause := progressPause
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case resp, ok := <-l.server:
			if !ok || !l.pass(resp) {
				return false
			}
		case <-l.wake:
		case <-timer.C:
			l.v.c.askBehind()
			pause = min(2*pause, maxProgressPause)
			timer.Reset(pause)
		case <-l.ctx.Done():
			return false
		}
		if l.from == 0 {
			continue
		}
		if created, ok := l.v.window.join(l); ok {
			return l.sameCluster(created.Header) && l.created(created)
		}
	}
}

// pass sends a response of the server's watch, and reports whether the watch goes on.
func (l *localWatch) pass(resp clientv3.WatchResponse) bool {
	if resp.Err() != nil {
		l.send(resp)
		return false
	}
	if !l.sameCluster(resp.Header) {
		return false
	}
	rev := resp.Header.GetRevision()
	switch {
	case resp.Created:
		if l.from == 0 {
			l.from = rev + 1
		}
		l.v.c.askBehind()
		return l.created(resp)
	case len(resp.Events) > 0:
		rev = resp.Events[len(resp.Events)-1].Kv.ModRevision
		l.from = rev + 1
		resp.Header = reply.Header(resp.Header, rev)
	case rev < l.from-1:
		return true
	default:
		if resp.IsProven() {
			l.from = rev + 1
		}
		if !l.takeProgress() {
			return true
		}
	}
	return l.send(resp)
}

// sameCluster ends the watch, and returns false, if a header is from another cluster than the events delivered so far.
func (l *localWatch) sameCluster(h *pb.ResponseHeader) bool {
	if change := lineage.Compare(l.point, h, false); change != nil {
		l.send(clientv3.WatchEnd((*clientv3.ClusterChangedError)(change)))
		return false
	}
	l.seen(h)
	return true
}

// takeProgress reports whether the caller wants progress that has arrived.
func (l *localWatch) takeProgress() bool {
	l.v.window.mu.Lock()
	defer l.v.window.mu.Unlock()
	wanted := l.progress || l.op.IsProgressNotify() || l.v.window.requested
	l.progress = false
	return wanted
}

// wanted returns the events of a batch that the watch delivers.
func (l *localWatch) wanted(b batch) (events []*clientv3.Event) {
	for _, e := range b.events {
		if l.wants(e.ev) {
			events = append(events, e.delivered(l.op.IsPrevKV()))
		}
	}
	return events
}

func (l *localWatch) wants(ev *clientv3.Event) bool {
	kv := ev.Kv
	switch {
	case kv.ModRevision < l.from:
		return false
	case ev.Type == clientv3.EventTypePut && l.op.IsFilterPut(), ev.Type == clientv3.EventTypeDelete && l.op.IsFilterDelete():
		return false
	}
	return l.keys.Contains(string(kv.Key))
}

// behindContext returns ctx with metadata that gives the watches served by the server a stream of their own, so that they do not delay the cache's
// watches.
func (c *Cache) behindContext(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "quorate-cache", "behind")
}

// askBehind requests the progress of the watches that the server serves, at most once in a progressPause for all of them.
func (c *Cache) askBehind() {
	now := time.Now()
	last := c.asked.Load()
	if last != nil && now.Sub(*last) < progressPause || !c.asked.CompareAndSwap(last, &now) {
		return
	}
	_ = c.watcher.RequestProgress(c.behindContext(c.ctx)) // fails only once the cache or the client is closed
}
