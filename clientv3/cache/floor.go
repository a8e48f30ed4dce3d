package cache

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/internal/pause"
)

// round is one linearizable read of the store's revision, shared by all who wait when it is sent.
type round struct {
	done chan struct{} // closed when what follows is known

	sent   time.Time // before the request left
	header *pb.ResponseHeader
	err    error
}

// floors makes the rounds, one at a time. A caller joins a round that has not been sent yet: a round
// under way may return a revision older than a write that the caller has seen acknowledged.
type floors struct {
	c *Cache

	mu     sync.Mutex
	next   *round // not sent yet
	last   *round // begun last
	latest *round // the last that succeeded

	turn int // whose prefix was read last; only send uses it
}

// read returns a round that succeeded. It is sent after the call, or at most stale before if stale is not 0. The error is the
// round's, that of ctx, or errUnavailable if the server has to answer: after Close, too.
func (f *floors) read(ctx context.Context, stale time.Duration) (*round, error) {
	r := f.join(stale)
	if r == nil {
		return nil, errUnavailable
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if r.err != nil && f.c.ctx.Err() != nil {
		return nil, errUnavailable
	}
	return r, r.err
}

// join returns the round for read, nil when the cache is closed.
func (f *floors) join(stale time.Duration) *round {
	f.mu.Lock()
	defer f.mu.Unlock()
	if stale > 0 && f.latest != nil && time.Since(f.latest.sent) <= stale {
		return f.latest
	}
	if f.next == nil {
		r, before := &round{done: make(chan struct{})}, f.last
		if !f.c.spawn(func() { f.send(r, before) }) {
			return nil
		}
		f.next, f.last = r, r
	}
	return f.next
}

// send makes a round when the one before it is done.
func (f *floors) send(r, before *round) {
	if before != nil {
		<-before.done
	}
	runtime.Gosched() // callers that are about to read join this round
	f.mu.Lock()
	f.next = nil
	f.mu.Unlock()
	defer close(r.done)
	f.c.readFloor(r)
	if r.err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.latest = r
	}
}

// readFloor makes a round. A floor of another history than that of the snapshots drops them. A denied one drops the prefix
// whose key it read; others may be readable.
func (c *Cache) readFloor(r *round) {
	seen := c.seen()
	r.sent = time.Now()
	c.stats.floors.Add(1)
	v := c.floors.inTurn()
	// A range of one key: package leasing serves single keys from memory, with an earlier revision.
	resp, err := c.plain.Get(c.ctx, v.keys.Key, clientv3.WithRange(v.keys.Key+"\x00"), clientv3.WithCountOnly())
	r.err = err
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		v.abandon(err)
		r.err = errUnavailable // the server says who may read what
	}
	if err != nil {
		return
	}
	r.header = resp.Header
	if change := lineage.Compare(seen, resp.Header, true); change != nil {
		r.err = errUnavailable
		for _, v := range c.views {
			v.abandon((*clientv3.ClusterChangedError)(change))
		}
		return
	}
	for _, v := range c.views {
		v.prove(r)
	}
}

// inTurn returns the view whose first key is read next. The views take turns, so that a withdrawn permission for any of them soon shows.
// It skips views that are not loaded, which may be denied, unless none is loaded.
func (f *floors) inTurn() *view {
	views := f.c.views
	for range views {
		f.turn++
		if views[f.turn%len(views)].snap.Load() != nil {
			break
		}
	}
	return views[f.turn%len(views)]
}

// checkPermissions drops the views that may not be read any more, in whole or in part. The comparison holds, so a server
// executes one read of one key; it checks the permissions of all. A server without transactions denies nothing.
func (c *Cache) checkPermissions(views []*view) {
	first := views[0].keys.Key
	whole := make([]clientv3.Op, 0, len(views))
	for _, v := range views {
		whole = append(whole, clientv3.OpGet(v.keys.Key, clientv3.WithRange(v.keys.End), clientv3.WithCountOnly()))
	}
	// A range of one key, as in a floor: package leasing decides comparisons of single keys.
	_, err := c.plain.Txn(c.ctx).If(clientv3.Compare(clientv3.Version(first).WithRange(first+"\x00"), ">", -1)).
		Then(clientv3.OpGet(first, clientv3.WithCountOnly())).Else(whole...).Commit()
	switch {
	case !errors.Is(err, rpctypes.ErrPermissionDenied):
	case len(views) == 1:
		views[0].abandon(err)
	default: // which of them?
		for i := range views {
			c.checkPermissions(views[i : i+1])
		}
	}
}

// seen returns the point that the snapshots have reached.
func (c *Cache) seen() (p lineage.Point) {
	for _, v := range c.views {
		if s := v.snap.Load(); s != nil && s.rev > p.Revision {
			p = pointOf(s)
		}
	}
	return p
}

func pointOf(s *snapshot) lineage.Point {
	return lineage.Point{Cluster: s.header.GetClusterId(), Revision: s.rev}
}

// elsewhere reads from the server what the cache cannot answer. With a bound it tries any member
// first, and accepts one whose revision shows that it has come far enough.
func (c *Cache) elsewhere(ctx context.Context, op clientv3.Op, b bound) (*clientv3.GetResponse, error) {
	if b == (bound{}) || op.IsSerializable() || op.Rev() != 0 {
		return c.remote(ctx, op)
	}
	least := b.rev
	if b.stale > 0 {
		r, err := c.floors.read(ctx, b.stale)
		switch {
		case errors.Is(err, errUnavailable), err != nil && hasMetadata(ctx): // a token of the caller's may be accepted
			return c.remote(ctx, op)
		case err != nil:
			return nil, err
		}
		least = max(least, r.header.GetRevision())
	}
	local := op
	clientv3.WithSerializable()(&local)
	resp, err := c.remote(ctx, local)
	if err == nil && resp.Header.GetRevision() >= least {
		return resp, nil
	}
	resp, err = c.remote(ctx, op)
	if err == nil && resp.Header.GetRevision() < b.rev {
		return nil, rpctypes.ErrFutureRev
	}
	return resp, err
}

const (
	// firstPause is the time between progress requests while a read waits: a member that is a
	// little behind the floor has applied it by then.
	firstPause = 5 * time.Millisecond
	firstTries = 10
	// maxPause is reached after about half a second, slowPause after a second: a member that is
	// that far behind is not asked 200 times a second by each of its clients.
	maxPause  = 100 * time.Millisecond
	maxTries  = 20
	slowPause = time.Second

	// stuckAfter is how long a stream may leave progress requests unanswered before it is given
	// up. It doubles up to maxStuck.
	stuckAfter = 5 * time.Second
	maxStuck   = time.Minute
)

// progressRequester requests progress until every view has reached its target.
type progressRequester struct {
	c        *Cache
	wake     chan struct{} // holds a value when a view begins to wait for a future revision; it does not shorten a pause
	advanced chan struct{} // holds a value when a view has reached what was asked for, or waits for more

	// Of the goroutine.
	reopened time.Time     // when the stream was last given up
	stuck    time.Duration // how long the present one may leave requests unanswered
}

// advanceTo makes a view soon reach a revision that the store has.
func (c *Cache) advanceTo(v *view, rev int64) {
	v.mu.Lock()
	s := v.snap.Load()
	if s == nil || s.rev >= rev {
		v.mu.Unlock()
		return
	}
	if s.rev >= v.target {
		v.moved = time.Now()
		c.requester.notify() // its pauses may be long by then, because of a revision that the store may not have
	}
	v.target = max(v.target, rev)
	v.mu.Unlock()
}

// advanceToFuture makes a view soon reach a revision, if the store has it, until stop is called.
func (c *Cache) advanceToFuture(v *view, rev int64) (stop func()) {
	v.mu.Lock()
	v.future = max(v.future, rev)
	v.waiters++
	v.mu.Unlock()
	pause.Signal(c.requester.wake)
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.waiters--; v.waiters == 0 {
			v.future = 0
		}
	}
}

func (pr *progressRequester) notify() { pause.Signal(pr.advanced) }

func (pr *progressRequester) run() {
	for tries := 0; pr.c.ctx.Err() == nil; {
		since, ok := pr.waiting()
		if !ok {
			tries = 0
			select {
			case <-pr.wake:
			case <-pr.advanced:
			case <-pr.c.ctx.Done():
			}
			continue
		}
		if since.After(pr.reopened) {
			pr.stuck = stuckAfter
		}
		if min(time.Since(since), time.Since(pr.reopened)) > pr.stuck {
			pr.c.reopen()
			pr.reopened, pr.stuck = time.Now(), min(2*pr.stuck, maxStuck)
		}
		pr.c.stats.progress.Add(1)
		_ = pr.c.watcher.RequestProgress(pr.c.streamContext(pr.c.ctx)) // fails only once the cache or the client is closed
		tries++
		select {
		case <-time.After(pauseAfter(tries)):
		case <-pr.advanced:
			tries = 0
		case <-pr.c.ctx.Done():
		}
	}
}

// waiting returns since when the view that has waited longest has not advanced. It records in each view
// which revision the next request is for. A stream is not stuck because the store does not reach a future revision.
func (pr *progressRequester) waiting() (since time.Time, ok bool) {
	now := time.Now()
	for _, v := range pr.c.views {
		v.mu.Lock()
		wanted := max(v.target, v.future)
		if s := v.snap.Load(); s != nil && s.rev < wanted && v.proven.Load() {
			v.asked = wanted
			moved := now
			if s.rev < v.target {
				v.asked, moved = v.target, v.moved
			}
			if !ok || moved.Before(since) {
				since, ok = moved, true
			}
		}
		v.mu.Unlock()
	}
	return since, ok
}

// pauseAfter returns how long to wait after so many requests, within 10 %.
func pauseAfter(tries int) time.Duration {
	d := firstPause
	switch {
	case tries > maxTries:
		d = slowPause
	case tries > firstTries:
		d = min(firstPause<<(tries-firstTries), maxPause)
	}
	return d*9/10 + rand.N(d/5)
}

// probe proves freshness now and then if reads do not, and that all prefixes may be read.
func (c *Cache) probe() {
	for {
		interval := c.cfg.ProbeInterval*9/10 + rand.N(c.cfg.ProbeInterval/5)
		if pause.For(c.ctx, interval) != nil {
			return
		}
		loaded := slices.DeleteFunc(slices.Clone(c.views), func(v *view) bool { return v.snap.Load() == nil })
		for part := range slices.Chunk(loaded, maxTxnOps) {
			c.checkPermissions(part)
		}
		if f := c.Freshness(); f.Age >= 0 && f.Age < interval/2 {
			continue
		}
		r, err := c.floors.read(c.ctx, 0)
		if err != nil {
			continue
		}
		for _, v := range c.views {
			if v.proven.Load() {
				c.advanceTo(v, r.header.GetRevision())
				continue
			}
			// The watch may have come from a server whose progress proves nothing to another one. Its
			// answer shows that.
			_ = c.watcher.RequestProgress(c.streamContext(c.ctx)) // fails only once the cache or the client is closed
		}
	}
}
