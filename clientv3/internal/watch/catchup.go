package watch

import (
	"cmp"
	"math"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/internal/pause"
)

const (
	// fullBatch is the number of revisions in one response that etcd sends to a
	// watcher that is behind. It sends one response every 100 ms, however far the
	// watcher is behind, so several watchers that start at different revisions
	// catch up several times faster.
	fullBatch = 1000

	// minSplitBacklog is the least number of missing revisions for which a watch is
	// split: fewer arrive within half a second.
	minSplitBacklog = 4 * fullBatch

	// maxQuiet is how many ticks of 50 ms may pass without a response for any part.
	maxQuiet = 100

	// maxParts bounds the parts of one watch. More would fill etcd's buffer of 128
	// responses for the stream.
	maxParts = 64

	// endless is the end of a part that follows new revisions.
	endless = math.MaxInt64
)

// plan is how to split a watch that is behind.
type plan struct {
	head  int64 // the store's revision
	step  int64 // revisions in a part
	parts int   // at the same time

	budget int // bytes that parts other than the current one may hold
}

// planCatchup plans from the extent of a batch and the store's revision at that time. A
// full batch means that more events follow.
func planCatchup(head int64, x extent, budget int) (plan, bool) {
	full := x.revisions >= fullBatch*9/10 // etcd applies filters after it has filled a batch
	if !full || x.ahead(head) < minSplitBacklog {
		return plan{}, false
	}
	p := plan{head: head, step: x.span(), budget: budget}
	if x.revisions < x.span() {
		p.step = x.span() * 19 / 20 // the next part may be denser by chance
	}
	p.parts = min(maxParts, budget/x.bytes, int((head-x.last)/p.step)+1)
	return p, p.parts > 1
}

// part is a range of revisions that its own subscription delivers. Events are held
// until the part is the current one.
type part struct {
	sub  *subscription
	end  int64 // the first revision after the part, endless for the last one
	held []batch
	size int
	done bool
	over *pb.WatchResponse // the server ended the subscription
}

type batch struct {
	header *pb.ResponseHeader
	events []*mvccpb.Event
}

// catchup splits a watch that is behind into parts and merges their events in
// order. History is immutable and parts end between revisions, so the result equals
// that of a single subscription.
//
// It is a pure state machine: its stage adds and removes subscriptions and receives
// the events in order.
type catchup struct {
	plan   plan
	parts  []*part
	next   int64 // the first revision that is in no part yet, endless if all are
	held   int   // bytes
	quiet  int   // ticks without a response
	newest int64 // the highest revision in a header that was forwarded
	stage  stage
}

// stage is where subscriptions are added and removed, and where events go.
type stage interface {
	open(from int64) *subscription
	close(*subscription)
	emit(*pb.ResponseHeader, []*mvccpb.Event)
}

// newCatchup continues from the next event of sub.
func newCatchup(p plan, sub *subscription, st stage) *catchup {
	c := &catchup{plan: p, stage: st}
	c.extend(sub, sub.next)
	c.fill()
	return c
}

// extend adds the part that begins at from. The last part, which reaches beyond the
// head, has no end.
func (c *catchup) extend(sub *subscription, from int64) {
	p := &part{sub: sub, end: endless}
	if end := from + c.plan.step; end <= c.plan.head {
		p.end = end
	}
	c.parts = append(c.parts, p)
	c.next = p.end
}

// fill opens parts up to the planned number. It opens none while more bytes are
// held than the budget allows.
func (c *catchup) fill() {
	for c.next != endless && len(c.parts) < c.plan.parts && (c.held <= c.plan.budget || len(c.parts) == 0) {
		c.extend(c.stage.open(c.next), c.next)
	}
}

// current returns the subscription whose events come next.
func (c *catchup) current() *subscription { return c.parts[0].sub }

// finished reports whether only the last part is left.
func (c *catchup) finished() bool { return len(c.parts) == 1 && c.next == endless }

func (c *catchup) find(s *subscription) *part {
	for _, p := range c.parts {
		if p.sub == s {
			return p
		}
	}
	return nil
}

// events processes events from the subscription of a part.
func (c *catchup) events(s *subscription, h *pb.ResponseHeader, events []*mvccpb.Event) {
	p := c.find(s)
	if p == nil {
		return
	}
	c.quiet = 0
	own := events
	for len(own) > 0 && own[len(own)-1].GetKv().GetModRevision() >= p.end {
		own = own[:len(own)-1]
	}
	if len(own) > 0 {
		c.take(p, h, own)
	}
	if s.next >= p.end && c.find(s) == p {
		c.complete(p)
	}
}

func (c *catchup) take(p *part, h *pb.ResponseHeader, events []*mvccpb.Event) {
	if p == c.parts[0] {
		c.emit(h, events)
		return
	}
	p.held = append(p.held, batch{h, events})
	size := extentOf(events).bytes
	p.size += size
	c.held += size
	c.dropParts()
}

// emit forwards events. Their header has the store's revision at the time they were
// sent, but never goes back for events that were held.
func (c *catchup) emit(h *pb.ResponseHeader, events []*mvccpb.Event) {
	c.newest = max(c.newest, h.GetRevision())
	h = cmp.Or(h, &pb.ResponseHeader{})
	h.Revision = c.newest
	c.stage.emit(h, events)
}

// dropParts closes the parts furthest ahead while more bytes are held than the
// budget allows. The current part holds nothing and stays. Closed parts are opened
// again later.
func (c *catchup) dropParts() {
	for c.held > c.plan.budget && len(c.parts) > 1 {
		last := c.parts[len(c.parts)-1]
		c.parts = c.parts[:len(c.parts)-1]
		c.drop(last)
		c.next = c.parts[len(c.parts)-1].end
	}
}

func (c *catchup) drop(p *part) {
	c.held -= p.size
	p.held, p.size = nil, 0
	c.stage.close(p.sub)
}

// progress records that a subscription has delivered everything up to rev.
func (c *catchup) progress(s *subscription, rev int64) {
	c.quiet = 0
	if p := c.find(s); p != nil && rev+1 >= p.end {
		c.complete(p)
	}
}

// complete ends a part that has delivered all of its revisions.
func (c *catchup) complete(p *part) {
	if p.done {
		return
	}
	p.done = true
	c.stage.close(p.sub)
	c.advance()
}

// canceled records that the server has ended a subscription. It returns the reason
// if the current part needs events from it.
func (c *catchup) canceled(s *subscription, resp *pb.WatchResponse) *pb.WatchResponse {
	p := c.find(s)
	if p == nil || p.done {
		return nil
	}
	p.over = resp
	return c.failure()
}

// failure returns why the watch cannot go on, nil while it can.
func (c *catchup) failure() *pb.WatchResponse {
	if p := c.parts[0]; !p.done {
		return p.over
	}
	return nil
}

// advance moves to the next part while the current one is done.
func (c *catchup) advance() {
	for c.parts[0].done {
		c.parts = c.parts[1:]
		c.fill()
		first := c.parts[0]
		c.held -= first.size
		for _, b := range first.held {
			c.emit(b.header, b.events)
		}
		first.held, first.size = nil, 0
	}
	c.fill()
}

// tick is called at intervals. It reports whether no response has arrived for so
// long that none will: a proxy drops progress responses.
func (c *catchup) tick() bool {
	c.quiet++
	return c.quiet > maxQuiet
}

// abandon closes all parts and returns the first undelivered revision.
func (c *catchup) abandon() int64 {
	next := c.parts[0].sub.next
	for _, p := range c.parts {
		c.drop(p)
	}
	return next
}

var _ stage = (*watcher)(nil) // of its catchup

func (w *watcher) open(from int64) *subscription {
	s := newSubscription(&w.req, w, from, false)
	w.sessionLocked().add(s)
	return s
}

func (w *watcher) close(s *subscription) { w.sessionLocked().remove(s) }

func (w *watcher) emit(h *pb.ResponseHeader, events []*mvccpb.Event) {
	w.push(Response{Header: h, Events: events})
}

// splittable reports whether the peer supports splitting: etcd from 3.4.25 and 3.5.8
// on. Such a server echoes the given ids, identifies itself in its headers, and
// answers progress requests only after it has sent all events: a part without events
// ends by progress alone.
//
//   - etcd's grpc-proxy chooses the ids and answers no progress requests. It serves several
//     watches with one upstream watch; those that join later get headers without IDs.
//   - kine refuses given ids, and sends headers without IDs.
//   - Older versions of etcd answer progress requests too early.
//
// The version that a peer reports is no evidence: kine reports etcd 3.5.
func (ss *session) splittable() bool {
	return ss.mode == pipelined && ss.named && !ss.progress.early
}

// considerCatchup decides whether to split the watch. The split runs after the
// shard's lock is released, because the watch moves to another shard.
func (w *watcher) considerCatchup(head int64, x extent) {
	sh := w.shard.Load()
	if w.unsplit || sh.engine.cfg.DisableSplit || !sh.session.splittable() {
		return
	}
	p, behind := planCatchup(head, x, sh.engine.allowance())
	slow := behind && w.buffer.held() > sh.engine.cfg.MaxBuffer/8 // the caller is the bottleneck
	if behind && !slow {
		sh.later = append(sh.later, func() { sh.engine.catchUp(w, sh, p) })
	}
}

// afterCatchup checks a split watch after each step.
func (w *watcher) afterCatchup() {
	w.current = w.catchup.current()
	switch failure := w.catchup.failure(); {
	case failure != nil:
		w.canceled(w.current, failure)
	case w.catchup.finished():
		w.endCatchup()
		w.caughtUp()
	}
	w.considerPause(w.buffer.held())
}

// rejoin continues without parts: the server, or a proxy, does not report progress,
// so a part without events never ends.
func (w *watcher) rejoin() {
	next := w.stop()
	w.unsplit = true
	w.current = newSubscription(&w.req, w, next, false)
	w.sessionLocked().add(w.current)
}

func (w *watcher) endCatchup() {
	e := w.shard.Load().engine
	e.parts.Add(int64(-w.catchup.plan.parts))
	e.cfg.Budget.use(-w.catchup.plan.budget)
	w.shard.Load().splits--
	w.catchup = nil
}

// continueHistoryLocked checks whether a created watch continues in its own history. A member
// with a lower revision than seen before may lag, or the store may have gone back: a
// linearizable read decides. It is called by the reader.
func (sh *shard) continueHistoryLocked(w *watcher, s *subscription, h *pb.ResponseHeader) {
	if w.history == nil {
		w.history = sh.link.history
	}
	if sh.engine.cfg.History.Over(w.history) != nil {
		sh.later = append(sh.later, sh.engine.endHistories)
		return
	}
	rev := h.GetRevision()
	behind := rev > 0 && rev < min(s.next-1, w.history.Revision())
	if !behind || h.GetClusterId() == 0 || sh.checkingCluster {
		return
	}
	sh.checkingCluster = true
	history, key := w.history, string(w.req.Key)
	sh.engine.running.Go(func() { sh.checkCluster(history, key) })
}

// The pause before a failed read is repeated. It doubles.
const (
	minCheckPause = time.Second
	maxCheckPause = time.Minute
)

// checkCluster reads until it is known whether the store has gone back. The history detects
// that in the header.
func (sh *shard) checkCluster(history *lineage.History, key string) {
	defer func() {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		sh.checkingCluster = false
	}()
	for bound := minCheckPause; sh.engine.cfg.History.Over(history) == nil; bound = min(2*bound, maxCheckPause) {
		if sh.engine.cfg.Read(sh.ctx, key) == nil {
			return
		}
		if pause.For(sh.ctx, rand.N(bound)) != nil {
			return
		}
	}
}

// endHistories ends the watches whose history is over, and reopens the streams that are
// older than the present history.
func (e *Engine) endHistories() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, sh := range e.shardsLocked() {
		sh.endHistory()
	}
}

// idleTimeout is how long a shard whose watches ended with their history waits for new ones.
const idleTimeout = 10 * time.Second

// awaitWatches ends the shard if it has no watches, and gets none within idleTimeout. Where endpoints belong to two
// clusters, a program makes its watches again and again: so their streams are opened with a backoff.
func (sh *shard) awaitWatches() {
	select {
	case <-sh.proceed:
	default:
	}
	if sh.load() == 0 {
		_ = pause.Until(sh.ctx, sh.proceed, idleTimeout)
	}
	sh.engine.retire(sh)
}

func (sh *shard) endHistory() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	h := sh.engine.cfg.History
	for w := range sh.watchers {
		if err := h.Over(w.history); err != nil {
			w.end(Response{Canceled: true, Err: err, CancelReason: err.Error()})
		}
	}
	if sh.wake != nil && h.Over(sh.link.history) != nil {
		sh.link.cancel(errChanged)
	}
	sh.signalLocked()
}
