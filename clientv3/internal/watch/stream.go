package watch

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3/internal/lineage"
)

// minStreamAge is the age from which any response shows that a stream works. A stream
// that breaks sooner, without having delivered an event, counts as a failure, and
// the next one waits longer.
const minStreamAge = time.Second

// Connector opens streams one after the other, and decides how to proceed when one
// ends. One goroutine uses it, except for Wake.
type Connector interface {
	// Open opens a stream and avoids endpoints that failed before. With leader the
	// server ends the stream when there is no leader.
	Open(ctx context.Context, leader bool) (pb.Watch_WatchClient, error)
	// Next waits until it is time to open another stream and returns nil, or
	// returns the error that ends the watches.
	Next(ctx context.Context, cause error) error
	// Wake reports that a caller waits for the next stream: it is opened at once,
	// unless streams fail repeatedly. Any goroutine may call it. It must not block.
	Wake()
	// Progress records that the stream works.
	Progress()
	// Leaderless reports whether every endpoint has reported that it knows no
	// leader.
	Leaderless() bool
	// Removed is closed when the client's endpoints no longer include the stream's.
	Removed() <-chan struct{}
	// InvalidateToken records that the server refused a request, perhaps because of the
	// stream's token. It reports whether the next stream may be accepted, and whether that
	// carries another token, or the same one to another member.
	InvalidateToken(refusal error) (again, another bool)
	// Resumed records that watches have resumed on the latest stream: their number, and
	// the time from the end of the previous stream until the server created the first of
	// them. It must not block.
	Resumed(watches int, gap time.Duration)
}

// errMove ends a stream that moves to another endpoint.
var errMove = errors.New("the stream moves")

var (
	// errStuck ends a stream that Reopen has closed.
	errStuck = disorder("it does not answer progress requests")
	// errChanged ends a stream that is older than the present history.
	errChanged = disorder("the cluster has changed since it was opened")
)

// link is a stream and the Connector that opened it.
type link struct {
	conn Connector
	ctx  context.Context // the stream's
	// cancel ends the stream. After errMove another one is opened at once, after any other cause
	// on another endpoint, after a backoff.
	cancel  context.CancelCauseFunc
	stream  pb.Watch_WatchClient // nil until it is open
	opened  time.Time
	history *lineage.History // the history in which it was opened
}

func (sh *shard) newLink(conn Connector) *link {
	ctx, cancel := context.WithCancelCause(sh.ctx)
	return &link{conn: conn, ctx: ctx, cancel: cancel}
}

// open opens the stream. With leader the server ends it when there is no leader.
func (l *link) open(leader bool, h *lineage.Tracker) (err error) {
	l.history = h.History()
	if l.stream, err = l.conn.Open(l.ctx, leader); err != nil {
		l.cancel(nil)
	}
	l.opened = time.Now()
	return err
}

// run opens one stream after the other until the shard ends.
//
// Every stream requires a leader, whether or not the callers do: a member that loses
// its leader then ends the stream, and it moves. If no endpoint has a leader, watches
// that do not require one are served without, while leaderSearch runs.
func (sh *shard) run() {
	defer sh.cancel()
	// Only while it runs: an engine without watches is garbage, also if the program has not closed it.
	defer sh.engine.cfg.History.Subscribe(sh.engine.endHistories)()
	search := &leaderSearch{sh: sh, bound: minLeaderRetry}
	leader := true
	for next := sh.link; ; {
		accepted, err := sh.attempt(next, leader, search)
		switch {
		case sh.ctx.Err() != nil:
			return
		case accepted != nil:
			next, leader = accepted, true
			continue
		case errors.Is(err, errMove):
			leader = true
		default:
			if err := sh.link.conn.Next(sh.ctx, err); err != nil {
				if sh.ctx.Err() == nil {
					sh.fail(err)
				}
				return
			}
			leader = !sh.link.conn.Leaderless()
			sh.awaitWatches()
		}
		next = sh.newLink(sh.link.conn)
	}
}

// attempt opens a stream, unless it is open, and serves it until it ends. If a stream
// with a leader is accepted meanwhile, it returns that one.
func (sh *shard) attempt(l *link, leader bool, search *leaderSearch) (accepted *link, err error) {
	if l.stream == nil {
		if err := l.open(leader, sh.engine.cfg.History); err != nil {
			return nil, err
		}
	}
	if !leader {
		return search.serveMeanwhile(l)
	}
	err = sh.serve(l)
	if time.Since(l.opened) > minStreamAge {
		search.bound = minLeaderRetry
	}
	return nil, err
}

// serve carries the watches on a stream until it ends, and returns the reason.
func (sh *shard) serve(l *link) error {
	defer l.cancel(nil)
	wake := sh.connect(l)
	defer sh.disconnect()
	sh.engine.retire(sh) // its watches may have ended meanwhile
	defer sh.awaitFirstCreate(wake, func() { l.cancel(errNoResponse) })()
	settled := make(chan (<-chan struct{}), 1)
	removed := l.conn.Removed()
	sh.engine.running.Go(func() { sh.write(l, wake, removed, settled) })
	return sh.read(l, settled)
}

// read processes responses until the stream ends. The stream's endpoint is final
// only with the first response: until then gRPC may retry the stream elsewhere.
func (sh *shard) read(l *link, settled chan<- (<-chan struct{})) error {
	for first := true; ; first = false {
		resp, err := l.stream.Recv()
		if err == nil {
			err = sh.receive(resp)
		}
		worked := time.Since(l.opened) > minStreamAge
		switch {
		case err == nil:
			worked = worked || len(resp.Events) > 0
		case l.ctx.Err() != nil:
			return context.Cause(l.ctx)
		default:
			worked = worked && !first // it delivered a response and lived long enough
		}
		if worked {
			l.conn.Progress()
		}
		if err != nil {
			return err
		}
		if first {
			settled <- l.conn.Removed()
		}
	}
}

// connect attaches the session to a stream.
func (sh *shard) connect(l *link) chan struct{} {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.link = l
	sh.wake = make(chan struct{}, 1)
	sh.stale, sh.accepted, sh.doubted = time.Time{}, false, time.Time{}
	sh.session.connect()
	sh.signalLocked()
	return sh.wake
}

func (sh *shard) disconnect() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.accepted {
		sh.interrupted = time.Now()
	}
	sh.wake = nil
	sh.session.disconnect()
	if sh.isAwaitedLocked() {
		sh.link.conn.Wake()
	}
}

// isAwaitedLocked reports whether a caller waits for an answer.
func (sh *shard) isAwaitedLocked() bool {
	if sh.session.progress.wanted {
		return true
	}
	for w := range sh.watchers {
		if w.phase == opening {
			return true
		}
	}
	return false
}

const (
	// freshness is how often a stream requests progress on its own, so that a watch
	// of keys without writes can resume after a compaction. etcd's tools and
	// Kubernetes keep five minutes of history or more.
	freshness = time.Minute

	// splitTick is how often a stream requests progress while a watch on it catches
	// up: progress ends a part without events.
	splitTick = 50 * time.Millisecond

	// maxMoveDelay bounds the random time that a stream stays on an endpoint that
	// was removed: streams of many clients move one by one.
	maxMoveDelay = time.Second
)

// write sends the requests of the session on a stream and runs its timers. Removed is closed when
// the stream's endpoint is removed; settled replaces it when the endpoint is final.
func (sh *shard) write(l *link, wake chan struct{}, removed <-chan struct{}, settled <-chan (<-chan struct{})) {
	var leave <-chan time.Time // when the stream leaves a removed endpoint
	pulse := time.NewTimer(sh.progressInterval())
	defer pulse.Stop()
	asked := time.Now()
	for {
		for _, req := range sh.take(wake) {
			if l.stream.Send(req) != nil {
				return // Recv returns the reason to the reader
			}
		}
		select {
		case <-l.ctx.Done():
			return
		case <-wake:
		case removed = <-settled:
		case <-pulse.C:
			asked = time.Now()
			sh.askProgress()
		case <-removed:
			removed = nil
			sh.askProgress()
			leave = time.After(rand.N(maxMoveDelay))
		case <-leave:
			l.cancel(errMove)
			return
		}
		pulse.Reset(time.Until(asked.Add(sh.progressInterval())))
	}
}

// progressInterval varies by 10 %, which spreads the requests of many clients.
func (sh *shard) progressInterval() time.Duration {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	switch {
	case sh.splits > 0:
		return splitTick
	case sh.dedicated:
		return returnInterval
	default:
		return freshness*9/10 + rand.N(freshness/5)
	}
}

// take returns the requests to send on the stream whose writer waits on wake.
func (sh *shard) take(wake chan struct{}) []*pb.WatchRequest {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.wake != wake {
		return nil
	}
	return sh.session.take()
}

// askProgress requests progress, which moves resume points.
func (sh *shard) askProgress() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(sh.session.live) > 0 {
		sh.session.requestProgress(false)
	}
	if sh.splits == 0 {
		return
	}
	for w := range sh.watchers {
		if w.catchup != nil && w.catchup.tick() {
			w.rejoin()
		}
	}
}

// firstCreateTimeout is how long the first create on a stream may be unanswered. A working member
// answers it at once, under any load. Probes usually detect a failed member sooner, but not behind
// a proxy that answers probes through other members.
const firstCreateTimeout = 10 * time.Second

// errNoResponse ends a stream that has never delivered a response.
var errNoResponse = disorder("nothing was answered on it for %v", firstCreateTimeout)

// awaitFirstCreate waits for the first response on the stream whose writer waits on wake. It
// checks every firstCreateTimeout, and gives the stream up if a create was in flight at two
// checks in a row. So a create that is sent later, because all watches were paused, may take up
// to twice as long. A check that runs while stop is called may schedule another, which finds the
// stream closed.
func (sh *shard) awaitFirstCreate(wake chan struct{}, giveUp func()) (stop func() bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	pending := len(sh.session.pending) > 0 // at the last check
	var timer *time.Timer
	timer = time.AfterFunc(firstCreateTimeout, func() {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		switch {
		case sh.wake != wake || sh.session.firstCreated || sh.session.foreign:
		case pending:
			giveUp()
		default:
			pending = len(sh.session.pending) > 0
			timer.Reset(firstCreateTimeout)
		}
	})
	return timer.Stop
}
