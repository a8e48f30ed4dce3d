package faults

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/retry"
)

// load keeps a store busy with a mix of calls: callers of every kind, each of which
// waits for the end of a call and a short pause before its next. It also keeps
// watches and leases, as many as there are callers of a kind.
//
// The callers with an index, one of each kind, have a few keys, and others after a second. One of
// them puts one key, another writes two others in txns, and gets read them all the time, so that a
// stale answer shows. No value is written twice.
//
// The watches are on what the callers write, see newReader. They begin at
// one revision, before the first write, and when one ends by itself its reader goes
// on with another from where it stood; so all of them have to deliver every change of
// their keys.
//
// Each lease has a keeper, which attaches a key of its own to it and keeps it alive.
// The lease is lost when the client ends the keepalive; the keeper then grants another one.
type load struct {
	halt    context.CancelFunc // stops further calls, and ends the keepers
	callers []*caller
	keepers []*keeper
	working sync.WaitGroup // callers and keepers

	unwatch context.CancelFunc // ends the readers
	readers []*reader
	reading sync.WaitGroup
}

// startLoad starts the readers of watches and the keepers of leases, and startPause later, or when ctx ends, the callers. Then it
// returns. The watches begin at a revision; nothing may have been written under the prefix
// before. The load must be ended by stop, and then endWatches.
func (r *run) startLoad(ctx context.Context, revision int64) *load {
	l := &load{}
	var reading, going context.Context
	reading, l.unwatch = context.WithCancel(context.Background())
	going, l.halt = context.WithCancel(context.Background())
	for i := range r.cfg.Callers {
		if r.conn.Watcher != nil {
			reader := newReader(r, i, revision)
			l.readers = append(l.readers, reader)
			l.reading.Go(func() { reader.work(reading) })
		}
		if r.conn.Lessor != nil {
			keeper := &keeper{run: r, index: i}
			l.keepers = append(l.keepers, keeper)
			l.working.Go(func() { keeper.work(going) })
		}
	}
	_ = pause.For(ctx, startPause)
	for i := range r.cfg.Callers {
		for k, kind := range kinds {
			rng := rand.New(rand.NewPCG(r.cfg.Seed, uint64(k)<<32|uint64(i)))
			c := &caller{run: r, kind: kind, index: i, rng: rng, busy: make(chan struct{}, 1)}
			l.callers = append(l.callers, c)
			l.working.Go(func() { c.work(going) })
		}
	}
	return l
}

// settle returns when the calls that are under way have ended, or when ctx ends, with its error.
func (l *load) settle(ctx context.Context) error {
	for _, c := range l.callers {
		if err := c.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stop starts no further calls and returns when those under way have ended. The leases are no longer kept. The watches go on.
func (l *load) stop() {
	l.halt()
	l.working.Wait()
}

// endWatches ends the watches and returns when their channels have been closed.
func (l *load) endWatches() {
	l.unwatch()
	l.reading.Wait()
}

// calls returns all calls, in the order of their ends. The load must have been stopped.
func (l *load) calls() (all []call) {
	for _, c := range l.callers {
		all = append(all, c.calls...)
	}
	slices.SortStableFunc(all, func(a, b call) int { return cmp.Compare(a.Return, b.Return) })
	return all
}

// leases returns all leases. The load must have been stopped.
func (l *load) leases() (all []*lease) {
	for _, k := range l.keepers {
		all = append(all, k.leases...)
	}
	return all
}

// watches returns all watches, numbered. They must have ended.
func (l *load) watches() (all []history.Watch) {
	for _, r := range l.readers {
		all = append(all, r.watches...)
	}
	for i := range all {
		all[i].ID = i
	}
	return all
}

const (
	// startPause is the time in which watches are created and leases granted before the first call.
	startPause = 500 * time.Millisecond
	// settleTimeout bounds the wait for what the watches have not delivered when the cluster
	// has been healed and nothing is written any more. It is longer than a client
	// may take to notice that a connection is dead.
	settleTimeout = 20 * time.Second
	// settlePoll is the time between two looks at whether something is undelivered.
	settlePoll = 10 * time.Millisecond
	// settleGrace is how long the watches are read on when nothing is undelivered, so
	// that what is delivered twice is seen.
	settleGrace = 300 * time.Millisecond
)

// settleWatches returns settleGrace after each reader has taken the newest of the events of its keys, and after
// settleTimeout at the latest.
func (l *load) settleWatches(events []history.Event) {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	for _, r := range l.readers {
		newest := r.request.Last(events, 0)
		for r.reached.Load() < newest {
			if pause.For(ctx, settlePoll) != nil {
				return
			}
		}
	}
	_ = pause.For(ctx, settleGrace) // no longer than settleTimeout in all
}

// rewatchPause is how long a reader waits before it watches again when its watch
// has ended by itself, so that a client which ends every watch at once is not
// asked in a tight loop.
const rewatchPause = 100 * time.Millisecond

// reader watches some keys from a revision on, for as long as the load runs. A
// watch that ends by itself is followed by another, from where it stood.
type reader struct {
	run     *run
	request history.WatchRequest // of all watches, but for their start
	watches []history.Watch
	next    int64        // from where the next one starts
	reached atomic.Int64 // the highest revision of an event
}

// newReader returns the reader with a number. By turns, readers watch every key, what the caller with their number puts, its
// counters, and what it writes together with them.
func newReader(r *run, number int, revision int64) *reader {
	prefix := r.prefix
	if kind := number % (1 + model.Keys); kind > 0 {
		prefix = fmt.Sprintf("%s%s/%d/", prefix, keyNames[kind-1], number)
	}
	return &reader{run: r, next: revision, request: history.WatchRequest{
		Key: prefix, RangeEnd: clientv3.GetPrefixRangeEnd(prefix), RequireLeader: r.conn.RequireLeader,
	}}
}

// work watches until ctx ends.
func (r *reader) work(ctx context.Context) {
	for ctx.Err() == nil {
		request := r.request
		request.StartRevision = r.next
		r.watches = append(r.watches, client.Read(ctx, r.run.conn.Watcher, request, r.run.env.Now, r.advance))
		_ = pause.For(ctx, rewatchPause)
	}
}

// advance moves the revision from which the next watch is to begin: after a compaction, to the
// oldest one left. The checker finds what is missing.
func (r *reader) advance(resp history.WatchResponse) {
	for _, e := range resp.Events {
		r.reached.Store(max(r.reached.Load(), e.ModRevision))
		r.next = max(r.next, e.ModRevision+1)
	}
	r.next = max(r.next, resp.CompactRevision)
}

// regrantPause is how long a keeper waits when it has lost its lease, or did not
// get one, before it asks for another.
const regrantPause = 100 * time.Millisecond

// lease is a lease that a keeper got, with what the client claimed of it.
type lease struct {
	id     int64
	key    string // attached to this lease alone
	claims []claim
	lost   time.Duration // when the client ended the keepalive, 0 if it did not
}

// claim is a claim of the client about a lease.
type claim struct {
	// at is when the keeper received it: an answer to a keepalive arrived, or the grant.
	at time.Duration
	// until is until when the lease is claimed to live. After the grant that is a TTL
	// from its sending.
	until time.Duration
}

// keeper holds one lease after the other, with a key attached.
type keeper struct {
	run    *run
	index  int
	leases []*lease
}

// work holds leases until ctx ends.
func (k *keeper) work(ctx context.Context) {
	for ctx.Err() == nil {
		if err := fatal.Catch(func() { k.hold(ctx) }); err != nil && ctx.Err() == nil {
			k.run.env.Counts.Add("leases", "not granted: "+retry.CodeOf(err).String(), 1)
		}
		_ = pause.For(ctx, regrantPause)
	}
}

// hold gets a lease, attaches a key to it, and keeps it alive. The keys are not below the prefix of the callers' keys, which are
// never deleted, and no other lease has the same one: a late attachment cannot take over the key of the next lease. An error before
// it is kept ends it, see package fatal.
func (k *keeper) hold(ctx context.Context) {
	r := k.run
	obtaining, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	sent := r.env.Now()
	id, ttl, err := r.conn.Lessor.Grant(obtaining, r.cfg.LeaseTTL)
	fatal.If(err)
	value := strconv.FormatInt(id, 16)
	held := &lease{id: id, key: fmt.Sprintf("/quorate-lab-leases/%016x/%d/%s", r.cfg.Seed, k.index, value), claims: []claim{{r.env.Now(), sent + ttl}}}
	fatal.If(r.conn.Lessor.Attach(obtaining, id, held.key, value))
	k.leases = append(k.leases, held)
	keeping, cancel := context.WithCancel(ctx)
	defer cancel()
	for until, err := range r.conn.Lessor.KeepAlive(keeping, id) {
		if err != nil {
			break
		}
		now := r.env.Now()
		left := time.Until(until) // measured after now, so that the claim is never made longer
		held.claims = append(held.claims, claim{now, now + left})
	}
	if ctx.Err() == nil {
		held.lost = r.env.Now()
	}
}

// The keys of a group: the key of a caller of puts, the counter of a caller of txns, and the key that the latter writes
// together with it.
const (
	putKey = iota
	counterKey
	txnKey
)

// keyNames are the names of these keys.
var keyNames = [model.Keys]string{putKey: "put", counterKey: "counter", txnKey: "txn"}

// groupLife is how long a group is used; its history is checked as a whole.
const groupLife = time.Second

// group is the keys of the callers with an index, one of each kind, for an epoch of groupLife.
type group struct{ index, epoch int }

// keys returns the keys of a group.
func (g group) keys(prefix string) (keys [model.Keys]string) {
	for key, name := range keyNames {
		keys[key] = fmt.Sprintf("%s%s/%d/%d", prefix, name, g.index, g.epoch)
	}
	return keys
}

// caller makes the calls of one kind, one at a time.
type caller struct {
	run   *run
	kind  model.Kind
	index int
	rng   *rand.Rand
	seq   int           // of the next value that it writes
	busy  chan struct{} // full while a call is under way
	calls []call
	// own is the group of the latest txn of a caller of txns, and counter the revision of that group's counter as far as the
	// caller knows. After a txn without an answer it compares with the same revision again: if that txn was executed, the
	// comparison fails, and the answer has the new revision.
	own     group
	counter int64
}

// work makes one call after the other until ctx ends. The first pause is a random part of a whole one, so that callers do not call
// in lockstep.
func (c *caller) work(ctx context.Context) {
	between := c.run.cfg.Pause
	for wait := pace.Between(c.rng, 0, between); pause.For(ctx, wait) == nil; wait = between {
		c.busy <- struct{}{}
		c.calls = append(c.calls, c.call())
		<-c.busy
	}
}

// settle returns when the call under way has ended, which it does by its deadline at the latest, or with the error of ctx.
func (c *caller) settle(ctx context.Context) error {
	select {
	case c.busy <- struct{}{}:
		<-c.busy
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call makes a call.
func (c *caller) call() call {
	r := c.run
	next := c.next(r.env.Now())
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.CallTimeout)
	defer cancel()
	next.Operation, next.failure = client.Do(ctx, r.conn.KV, next.group.keys(r.prefix), next.Operation, r.env.Now)
	if next.failure == nil {
		c.learn(next.Response)
	}
	return next
}

// next returns the next call. A get reads what another caller puts or its counter, with equal chance.
func (c *caller) next(now time.Duration) call {
	callers := c.run.cfg.Callers
	next := call{
		group:     group{c.index, int(now / groupLife)},
		Operation: model.Operation{Client: slices.Index(kinds, c.kind)*callers + c.index},
	}
	if c.kind.Writes() {
		if next.group != c.own {
			c.own, c.counter = next.group, 0
		}
		next.Request = c.write()
	} else {
		next.group.index = c.rng.IntN(callers)
		next.Request = model.Request{Kind: c.kind, Then: reads[c.rng.IntN(len(reads))]}
	}
	return next
}

// reads has the read of the key that is put, and that of the counter.
var reads = [...][]model.Act{{{Verb: model.Read, Key: putKey}}, {{Verb: model.Read, Key: counterKey}}}

// write returns the next put or txn.
func (c *caller) write() model.Request {
	c.seq++
	value := fmt.Sprintf("%s %d.%d", c.kind, c.index, c.seq)
	if c.kind == model.Put {
		return model.Request{Kind: model.Put, Then: []model.Act{{Verb: model.Write, Key: putKey, Value: value}}}
	}
	return model.Request{
		Kind: model.Txn, If: []model.Compare{{Key: counterKey, Target: model.ModRevision, Number: c.counter}},
		Then: []model.Act{{Verb: model.Write, Key: counterKey, Value: value}, {Verb: model.Write, Key: txnKey, Value: value}},
		Else: reads[counterKey],
	}
}

// learn takes the revision of the counter from the answer to a txn.
func (c *caller) learn(response model.Response) {
	switch {
	case c.kind != model.Txn:
	case response.Succeeded:
		c.counter = response.Revision
	default:
		c.counter = response.Results[0].KV.ModRevision
	}
}
