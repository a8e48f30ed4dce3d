package watch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/internal/pause"
)

// shard carries some of a group's watches on one stream.
type shard struct {
	engine *Engine
	key    string
	// dedicated keeps the stream for one watch that catches up. It changes only with the locks of
	// the engine and the shard.
	dedicated bool
	// proceed ends the wait for a slow reader, see awaitReader.
	proceed chan struct{}
	// base has the values and the metadata of the first caller and never ends; ctx
	// derives from it and ends with the shard.
	base   context.Context
	ctx    context.Context
	cancel context.CancelFunc

	mu         sync.Mutex
	link       *link // the latest that was served, the first before that; only run changes it
	session    *session
	watchers   map[*watcher]struct{}
	splits     int           // watches that are catching up
	readerWait time.Duration // how long the stream may still wait for its reader
	traffic    traffic
	accepted   bool // the server has created a watch on the stream
	// interrupted is when the latest stream with watches ended, zero once they have
	// resumed.
	interrupted     time.Time
	stale           time.Time     // since when the stream's token is refused, zero if accepted
	doubted         time.Time     // when a denial on the stream was not trusted (renewLocked), zero if none was
	checkingCluster bool          // a read checks whether the store has gone back
	wake            chan struct{} // the writer's, nil without a stream
	later           []func()      // functions that the reader runs without the lock
}

func newShard(base context.Context, e *Engine, key string, dedicated bool) *shard {
	sh := &shard{
		engine: e, key: key, dedicated: dedicated, base: base,
		proceed: make(chan struct{}, 1), readerWait: maxReaderWait, session: newSession(), watchers: make(map[*watcher]struct{}),
	}
	sh.session.foreign = e.cfg.Foreign
	sh.ctx, sh.cancel = context.WithCancel(base)
	sh.link = sh.newLink(e.cfg.Connect())
	return sh
}

// metadataKey returns the key of a caller's group: callers with different metadata
// must not share a stream.
func metadataKey(ctx context.Context) string {
	md, _ := metadata.FromOutgoingContext(ctx)
	if len(md) == 0 {
		return ""
	}
	// The names are sorted. A value may hold any byte; metadata.MD itself prints no values.
	return fmt.Sprintf("%q", map[string][]string(md))
}

func (sh *shard) accepts() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.stale.IsZero() && len(sh.watchers) < maxWatchers && !sh.traffic.busy(time.Now())
}

// adoptLocked adds a watch.
func (sh *shard) adoptLocked(w *watcher) {
	w.shard.Store(sh)
	sh.watchers[w] = struct{}{}
	if w.phase != paused {
		sh.session.add(w.current)
	}
	pause.Signal(sh.proceed)
	sh.fastReopenLocked()
	sh.signalLocked()
}

// fastReopenLocked makes the next stream open soon if there is none.
func (sh *shard) fastReopenLocked() {
	if sh.wake == nil {
		sh.link.conn.Wake()
	}
}

// signalLocked wakes the writer if there is something to send.
func (sh *shard) signalLocked() {
	if len(sh.session.out) > 0 {
		pause.Signal(sh.wake)
	}
}

// receive processes a response.
func (sh *shard) receive(resp *pb.WatchResponse) error {
	if !sh.engine.cfg.History.Note(sh.link.history, resp.GetHeader(), 0) {
		return errChanged
	}
	sh.mu.Lock()
	if len(resp.Events) > 0 {
		sh.traffic.add(len(resp.Events), time.Now())
	}
	err := sh.session.receive(resp)
	sh.unlock()
	return err
}

// unlock releases the lock, and runs the functions that need the shard unlocked.
func (sh *shard) unlock() {
	later := sh.later
	sh.later = nil
	empty := len(sh.watchers) == 0
	sh.signalLocked()
	sh.mu.Unlock()
	for _, f := range later {
		f()
	}
	if empty {
		sh.engine.retire(sh)
	}
}

// fail ends all watches with the final error of their stream.
func (sh *shard) fail(err error) {
	sh.engine.mu.Lock()
	sh.engine.removeLocked(sh)
	sh.engine.mu.Unlock()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for w := range sh.watchers {
		w.end(Response{Canceled: true, Err: err})
	}
	sh.cancel()
}

// close ends all watches because the engine is closed.
func (sh *shard) close() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for w := range sh.watchers {
		w.detach()
		w.buffer.drop()
	}
	sh.cancel()
}

// busy is the number of events per second from which a stream accepts no more
// watches: etcd sends a stream's events one response after the other, and one
// goroutine reads them here. It is a tenth of what one stream carries on an
// ordinary machine.
const busy = 10_000

// traffic counts the events of a stream second by second.
type traffic struct {
	second      time.Time // when the current count began
	count, last int
}

// add counts events that arrive at now.
func (t *traffic) add(events int, now time.Time) {
	if now.Sub(t.second) >= time.Second {
		t.roll(now)
	}
	t.count += events
}

// busy reports whether the last full second had that many events.
func (t *traffic) busy(now time.Time) bool {
	t.roll(now)
	return t.last >= busy
}

func (t *traffic) roll(now time.Time) {
	switch age := now.Sub(t.second); {
	case age < time.Second:
	case age < 2*time.Second:
		t.second, t.last, t.count = now, t.count, 0
	default:
		t.second, t.last, t.count = now, 0, 0
	}
}

// A watch with a large backlog has a dedicated stream: etcd sends up to 1,000 revisions in one
// response, whatever their size, and nothing else meanwhile. So it delays no other watch, and
// can stop reading while its caller is slow, instead of pausing and being sent the rest again.

const (
	// minDedicated is the number of bytes, still to come in a response, from which a watch moves
	// to a dedicated stream. The other watches on its stream are created again then, so there must
	// be otherShare bytes for each of them.
	minDedicated = 4 << 20
	otherShare   = 64 << 10

	// maxReaderWait is how long, in all, a stream waits for its reader. Meanwhile the
	// server holds what it has read of history.
	maxReaderWait = time.Second

	// returnInterval is how often a dedicated stream requests progress, which shows that its
	// watch has caught up.
	returnInterval = time.Second
)

// dedicatedLocked is the target of a watch with a large backlog. There are few such shards in a
// group: proxies and balancers limit the streams of a connection. Over a foreign client
// (Config.Foreign) there are none.
func dedicatedLocked(e *Engine, from *shard) *shard {
	dedicated := e.dedicatedShardsLocked(from.key)
	switch {
	case e.cfg.Foreign:
		return nil
	case (from.dedicated || len(dedicated) < maxDedicated) && from.reserve():
		return from
	case len(dedicated) < maxDedicated:
		return e.newShardLocked(from.base, from.key, true)
	default:
		return nil
	}
}

// dedicatedOrSharedLocked is the target of a watch that resumes. If there are too many dedicated
// streams, it shares one with other watches whose readers are slow.
func dedicatedOrSharedLocked(e *Engine, from *shard) *shard {
	if to := dedicatedLocked(e, from); to != nil {
		return to
	}
	if e.cfg.Foreign {
		return from
	}
	return slices.MinFunc(e.dedicatedShardsLocked(from.key), func(a, b *shard) int { return cmp.Compare(a.load(), b.load()) })
}

// returnedLocked is the target of a watch that has caught up.
func returnedLocked(e *Engine, from *shard) *shard {
	if to := e.pickLocked(from.key); to != nil {
		return to
	}
	from.mu.Lock()
	defer from.mu.Unlock()
	if len(from.watchers) != 1 {
		return e.newShardLocked(from.base, from.key, false)
	}
	from.dedicated = false
	return from
}

// dedicatedShardsLocked returns the shards of a group whose streams are dedicated.
func (e *Engine) dedicatedShardsLocked(key string) []*shard {
	return slices.DeleteFunc(slices.Clone(e.groups[key]), func(sh *shard) bool { return !sh.dedicated })
}

// reserve keeps other watches off the shard if it has only one.
func (sh *shard) reserve() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(sh.watchers) != 1 {
		return false
	}
	sh.dedicated, sh.readerWait = true, maxReaderWait
	pause.Signal(sh.wake) // its interval changes
	return true
}

// load returns the number of watches.
func (sh *shard) load() int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return len(sh.watchers)
}

// considerDedicated gives the watch a dedicated stream if much is still to come in the response
// that is arriving.
func (w *watcher) considerDedicated(head int64, x extent) {
	sh := w.shard.Load()
	if sh.dedicated || x.bytesAhead(head) < max(minDedicated, otherShare*(len(sh.watchers)-1)) {
		return
	}
	sh.later = append(sh.later, func() {
		sh.engine.moveAnd(w, sh, dedicatedLocked, func(to *shard) {
			if to != sh {
				sh.link.cancel(errMove) // otherwise the other watches wait for the rest of the response
			}
		})
	})
}

// caughtUp gives up the watch's dedicated stream.
func (w *watcher) caughtUp() {
	if sh := w.shard.Load(); sh.dedicated && w.phase == following && w.catchup == nil {
		sh.later = append(sh.later, func() { sh.engine.move(w, sh, returnedLocked) })
	}
}

// mayWaitLocked reports whether the stream may go unread until the watch's caller has read more.
func (sh *shard) mayWaitLocked(w *watcher) bool {
	return sh.dedicated && len(sh.watchers) == 1 && w.catchup == nil && sh.readerWait > 0
}

// awaitReader waits until half of the watch's allowance is read. If that takes too long, the
// watch pauses. The reader of the stream calls it.
func (sh *shard) awaitReader(w *watcher, limit int) {
	select {
	case <-sh.proceed:
	default:
	}
	if !w.buffer.awaitRoom(limit / 2) {
		return
	}
	begun := time.Now()
	_ = pause.Until(sh.ctx, sh.proceed, sh.readerWait)
	sh.mu.Lock()
	sh.readerWait -= time.Since(begun)
	if sh.readerWait <= 0 && w.shard.Load() == sh && w.phase == following && w.buffer.held() > limit/2 {
		w.pause(limit)
	}
	sh.unlock()
}

// hasRoom continues a watch whose caller has read enough.
func (e *Engine) hasRoom(w *watcher) {
	isPaused := false
	w.locked(func(sh *shard) {
		isPaused = w.phase == paused
		pause.Signal(sh.proceed)
	})
	if isPaused {
		e.resume(w)
	}
}

// resume puts a paused watch back on a stream.
func (e *Engine) resume(w *watcher) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.groups == nil {
		return
	}
	from := w.shard.Load() // which changes only with the engine's lock
	e.transferLocked(w, from, dedicatedOrSharedLocked(e, from), func(*shard) { w.resume() })
}
