package cache

import (
	"sort"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/reply"
	"github.com/quorate/quorate/internal/pause"
)

// event is a change of a key, with the previous key-value.
type event struct {
	ev   *clientv3.Event
	prev *mvccpb.KeyValue // nil if there was no such key

	// What watches deliver, without and with the previous key: copies, which all watches share; nil until one wants it.
	plain, full *clientv3.Event
}

// eventOverhead is about what an event occupies besides its bytes.
const eventOverhead = 300

func (e *event) bytes() int64 {
	n := len(e.ev.Kv.Key) + len(e.ev.Kv.Value) + eventOverhead
	if e.prev != nil {
		n += len(e.prev.Value)
	}
	return int64(n)
}

func (e *event) delivered(prev bool) *clientv3.Event {
	if e.plain == nil {
		e.plain = &clientv3.Event{Type: e.ev.Type, Kv: reply.Key(e.ev.Kv, clientv3.Op{})}
	}
	if !prev || e.prev == nil {
		return e.plain
	}
	if e.full == nil {
		e.full = &clientv3.Event{Type: e.ev.Type, Kv: e.plain.Kv, PrevKv: reply.Key(e.prev, clientv3.Op{})}
	}
	return e.full
}

// batch is what one response of the server's watch brought: all changes of its revisions.
type batch struct {
	events []*event
	last   int64 // revision
	header *pb.ResponseHeader
	bytes  int64
}

// notifyInterval is the least time between progress notifications of watches with WithProgressNotify. The cache requests
// progress far more often while it is read.
const notifyInterval = time.Minute

// window holds the latest events of a view, from which local watches are served. Each watch has a position in it and no
// buffer. One whose position has left the window goes on at the server.
type window struct {
	maxEvents int
	maxBytes  int64

	mu        sync.Mutex
	kept      bool // events are kept: set by the first Watcher of the cache
	loaded    bool
	lossless  bool // watches of the server lose no events
	first     int64
	rev       int64 // every event from first to rev is in batches
	header    *pb.ResponseHeader
	batches   []batch
	events    int
	bytes     int64
	compacted int64 // every event before this revision is compacted at the server
	history   int64 // of the last snapshot, 0 if there was none or its history is over
	watches   watchIndex
	delivered int64     // parked watches have everything up to this revision
	requested bool      // progress, by RequestProgress
	notified  time.Time // when watches with WithProgressNotify last got some

	created, progress clientv3.WatchResponse // the latest ones of the server's watch: local watches pass on their IsProven
}

// watchIndex holds the watches of one key by the key, and those of ranges by ofRanges, which is no key.
type watchIndex map[string]map[*localWatch]struct{}

const ofRanges = ""

func (x watchIndex) add(l *localWatch) {
	key := l.indexKey()
	if x[key] == nil {
		x[key] = make(map[*localWatch]struct{})
	}
	x[key][l] = struct{}{}
}

func (x watchIndex) remove(l *localWatch) {
	key := l.indexKey()
	if delete(x[key], l); len(x[key]) == 0 {
		delete(x, key)
	}
}

// all yields all watches.
func (x watchIndex) all(yield func(*localWatch) bool) {
	for _, watches := range x {
		for l := range watches {
			if !yield(l) {
				return
			}
		}
	}
}

// note records a snapshot that is published: what has changed, or a list, before which nothing is known. deliver follows.
func (w *window) note(ch change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loaded, w.rev, w.header = true, ch.next.rev, ch.next.header
	if ch.resync != nil {
		for l := range w.watches.all {
			w.catchUpLocked(l)
		}
		w.batches, w.events, w.bytes, w.first, w.delivered = nil, 0, 0, w.rev+1, 0
		if w.history != ch.next.history {
			w.history, w.compacted = ch.next.history, 0
		}
		return
	}
	b := batch{events: ch.events, last: ch.next.rev, header: reply.Header(ch.next.header, ch.next.rev)}
	for _, e := range b.events {
		b.bytes += e.bytes()
	}
	w.batches = append(w.batches, b)
	w.events += len(b.events)
	w.bytes += b.bytes
	for len(w.batches) > 1 && (w.events > w.maxEvents || w.bytes > w.maxBytes) {
		w.dropOldestLocked()
	}
	if !w.kept {
		w.dropOldestLocked()
	}
}

// dropOldestLocked drops the oldest batch.
func (w *window) dropOldestLocked() {
	oldest := w.batches[0]
	w.batches[0] = batch{} // for the garbage collector
	w.batches = w.batches[1:]
	w.events -= len(oldest.events)
	w.bytes -= oldest.bytes
	w.first = oldest.last + 1
}

// deliver wakes the watches that a change concerns.
func (w *window) deliver(ch change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ch.resync != nil {
		for l := range w.watches.all {
			w.wakeLocked(l)
		}
	}
	for _, key := range append(ch.keys, ofRanges) {
		for l := range w.watches[key] {
			w.wakeLocked(l)
		}
	}
	w.delivered = ch.next.rev
}

// catchUpLocked advances a parked watch to the delivered revision: deliver wakes it only for changes that concern it.
func (w *window) catchUpLocked(l *localWatch) {
	if l.parked {
		l.from = max(l.from, w.delivered+1)
	}
}

// wakeLocked makes a watch continue. A parked watch has no goroutine: wakeLocked sends its next responses, and starts
// a goroutine only if its reader is slow or it leaves the window.
func (w *window) wakeLocked(l *localWatch) {
	if !l.parked {
		pause.Signal(l.wake)
		return
	}
	w.catchUpLocked(l)
	for {
		resp, do := w.nextLocked(l)
		if do == stepWait {
			return
		}
		if do == stepSend {
			select {
			case l.out <- resp:
				continue
			default:
				l.unsent = &resp
			}
		}
		l.startLocked()
		return
	}
}

// setLossless records whether watches of the server lose no events.
func (w *window) setLossless(lossless bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lossless != lossless {
		w.skipLocked()
		w.lossless = lossless
		for l := range w.watches.all {
			w.wakeLocked(l)
		}
	}
}

// drop ends the window with its snapshot. Watches go on at the server; with an error they end.
func (w *window) drop(ended error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skipLocked()
	w.loaded = false
	if ended != nil {
		w.history, w.compacted = 0, 0
	}
	for l := range w.watches.all {
		if l.local && ended != nil {
			l.err = ended
		}
		w.wakeLocked(l)
	}
}

// skipLocked moves local watches that have delivered everything to the revision of the window: the server may have compacted
// the revisions before it, in which nothing has changed for them.
func (w *window) skipLocked() {
	if !w.loaded || !w.lossless {
		return
	}
	last := w.first - 1
	if n := len(w.batches); n > 0 {
		last = w.batches[n-1].last
	}
	for l := range w.watches.all {
		w.catchUpLocked(l)
		if l.local && w.continuesLocked(l) && l.from > last {
			l.from = max(l.from, w.rev+1)
		}
	}
}

// advance records that nothing has changed up to a revision.
func (w *window) advance(h *pb.ResponseHeader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rev, w.header = h.GetRevision(), h
}

// notify records a response of the server's watch without events, and passes progress on.
func (w *window) notify(resp clientv3.WatchResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if resp.Created {
		w.created = resp
		return
	}
	w.progress = resp
	requested, due := w.requested, time.Since(w.notified) >= notifyInterval
	w.requested = false
	if due {
		w.notified = time.Now()
	}
	for l := range w.watches.all {
		if requested || due && l.op.IsProgressNotify() {
			l.progress = true
			w.wakeLocked(l)
		}
	}
}

// compactedAt records that the server has compacted what was before a revision.
func (w *window) compactedAt(rev int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.compacted = max(w.compacted, rev)
}

// join makes a watch a local one if everything from its revision on is in the window. Without a revision it begins with
// what follows the window. A watch of an earlier history stays at the server, which ends it, or nextLocked does. The response says
// that it is created, with the header of the window.
func (w *window) join(l *localWatch) (created clientv3.WatchResponse, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watches.add(l)
	if l.history == 0 {
		l.history = w.history
	}
	over := w.loaded && !w.continuesLocked(l) && l.from > w.rev+1 // the server cannot end it: it was created there afterwards
	if !over && (!w.loaded || !w.lossless || !w.kept) {
		return created, false
	}
	if l.from == 0 {
		l.from = w.rev + 1
	}
	l.local = l.from >= w.first && w.continuesLocked(l)
	created = w.created
	created.Header = reply.Header(w.header, w.rev)
	return created, l.local || over
}

// continuesLocked reports whether the window is of the history of a watch. Without a cluster ID in the header that is unknown, and the
// watch continues.
func (w *window) continuesLocked(l *localWatch) bool {
	return l.history == w.history || w.header.GetClusterId() == 0
}

// leave ends a parked watch whose context has ended. The goroutine of any other watch sees the end of the context itself.
func (w *window) leave(l *localWatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.parked {
		w.closeLocked(l)
	}
}

func (w *window) closeLocked(l *localWatch) {
	w.watches.remove(l)
	l.parked = false
	close(l.out)
}

func (w *window) close(l *localWatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closeLocked(l)
}

func (w *window) count() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, watches := range w.watches {
		n += len(watches)
	}
	return int64(n)
}

// step is what a local watch does next.
type step int

const (
	stepWait step = iota
	stepSend
	stepServer // go on at the server
	stepEnd
	stepOver // its context has ended
)

// nextLocked returns what a local watch does next, and what it sends.
func (w *window) nextLocked(l *localWatch) (resp clientv3.WatchResponse, do step) {
	switch {
	case l.err != nil:
		return clientv3.WatchEnd(l.err), stepEnd
	case !w.continuesLocked(l): // it has waited for its reader meanwhile
		return clientv3.WatchEnd(&clientv3.ClusterChangedError{
			OldClusterID: l.point.Cluster, OldRevision: l.from - 1, NewClusterID: w.header.GetClusterId(), NewRevision: w.rev,
		}), stepEnd
	case !w.loaded || !w.lossless || l.from < w.first:
		l.local = false
		return resp, stepServer
	}
	l.local = true
	i := len(w.batches) - 1
	if i > 0 && w.batches[i-1].last >= l.from {
		i = sort.Search(i, func(i int) bool { return w.batches[i].last >= l.from })
	}
	for _, b := range w.batches[max(i, 0):] {
		events := l.wanted(b)
		l.from = max(l.from, b.last+1)
		if len(events) > 0 {
			l.seen(b.header)
			return clientv3.WatchResponse{Header: b.header, Events: events}, stepSend
		}
	}
	if l.progress && w.rev >= l.from-1 {
		l.progress, l.from = false, w.rev+1
		resp = w.progress
		resp.Header = reply.Header(w.header, w.rev)
		return resp, stepSend
	}
	return resp, stepWait
}

// next is nextLocked for the goroutine of a watch, which ends when there is nothing to do: the watch is parked.
func (w *window) next(l *localWatch) (resp clientv3.WatchResponse, do step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.ctx.Err() != nil {
		return resp, stepOver
	}
	resp, do = w.nextLocked(l)
	l.parked = do == stepWait
	return resp, do
}
