package watch

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3/internal/lineage"
)

// proven is the age from which on any response shows that a stream works. One
// that breaks sooner, and without having delivered an event, counts as a
// failure, and the next waits longer.
const proven = time.Second

// Connector opens streams one after the other, and decides what follows the end
// of each. One goroutine uses it, but for Wake.
type Connector interface {
	// Open opens a stream, away from those that failed before. With leader it asks
	// the server to end it when there is no leader.
	Open(ctx context.Context, leader bool) (pb.Watch_WatchClient, error)
	// Next returns nil when it is time to open another stream, and otherwise the
	// error that the watches end with.
	Next(ctx context.Context, cause error) error
	// Wake says that a caller waits for the next stream: it is opened at once, unless
	// streams fail repeatedly. Any goroutine may call it. It must not block.
	Wake()
	// Progress notes that the stream works.
	Progress()
	// Leaderless reports whether every endpoint has said that it knows no leader.
	Leaderless() bool
	// Removed is closed when the stream's endpoint is none of the client's any more.
	Removed() <-chan struct{}
	// InvalidateToken is told that the server refused a request, perhaps for the stream's
	// token, and reports whether another stream would carry another token.
	InvalidateToken(refusal error) bool
	// Resumed is told that watches go on on the latest stream: how many there are on it,
	// and how long after the end of the one before the server created the first of them.
	// It must not block.
	Resumed(watches int, gap time.Duration)
}

// errMove ends a stream that is to be opened elsewhere.
var errMove = errors.New("the stream moves")

// errStuck ends a stream that a caller has given up.
var errStuck = disorder("it does not answer progress requests")

// link is a stream, and what opened it.
type link struct {
	conn    Connector
	ctx     context.Context // the stream's
	cancel  context.CancelCauseFunc
	stream  pb.Watch_WatchClient // nil until it is open
	opened  time.Time
	history *lineage.History // in which it was
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
// its leader then ends the stream, which moves. Where no endpoint has a leader, callers
// who do not require one are served without, while a leader is searched for.
func (sh *shard) run() {
	defer sh.cancel()
	search := &leaderSearch{sh: sh, bound: minLeaderRetry}
	leader := true
	for next := sh.newLink(sh.conn); ; {
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
			if err := sh.conn.Next(sh.ctx, err); err != nil {
				if sh.ctx.Err() == nil {
					sh.fail(err)
				}
				return
			}
			leader = !sh.conn.Leaderless()
		}
		next = sh.newLink(sh.conn)
	}
}

// attempt opens a stream, unless it is open, and serves it to its end. Instead of the
// end of a stream without a leader it may return one that was accepted meanwhile.
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
	if time.Since(l.opened) > proven {
		search.bound = minLeaderRetry
	}
	return nil, err
}

// serve carries the watches on a stream until it ends, and returns why it did.
func (sh *shard) serve(l *link) error {
	defer l.cancel(nil)
	wake := sh.connect(l)
	defer sh.disconnect()
	first := sh.awaitFirstCreate(wake, func() { l.cancel(errUngreeted) })
	defer first.stop()
	wr := &writer{
		sh: sh, ctx: l.ctx, stream: l.stream, wake: wake, move: func() { l.cancel(errMove) },
		removed: l.conn.Removed(), settled: make(chan (<-chan struct{}), 1),
	}
	sh.engine.running.Go(wr.run)
	return sh.read(l, wr.settled)
}

// read processes responses until the stream ends. With the first one it is
// settled where the stream is: until then grpc may move it.
func (sh *shard) read(l *link, settled chan<- (<-chan struct{})) error {
	for first := true; ; first = false {
		resp, err := l.stream.Recv()
		if err == nil {
			err = sh.receive(resp)
		}
		worked := time.Since(l.opened) > proven
		switch {
		case err == nil:
			worked = worked || len(resp.Events) > 0
		case errors.Is(context.Cause(l.ctx), errMove):
			return errMove
		case errors.Is(context.Cause(l.ctx), errUngreeted):
			return errUngreeted
		case errors.Is(context.Cause(l.ctx), errStuck):
			return errStuck
		default:
			worked = worked && !first // it lived long, if quietly
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

// connect has the session speak on a stream.
func (sh *shard) connect(l *link) chan struct{} {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.conn = l.conn
	sh.history, sh.reset = l.history, func() { l.cancel(errMove) }
	sh.giveUp = func() { l.cancel(errStuck) }
	sh.wake = make(chan struct{}, 1)
	sh.opened, sh.stale, sh.accepted, sh.doubted = l.opened, time.Time{}, false, false
	sh.session.connect()
	sh.signal()
	return sh.wake
}

func (sh *shard) disconnect() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.accepted {
		sh.interrupted = time.Now()
	}
	sh.wake = nil
	sh.opened = time.Time{}
	sh.session.disconnect()
	if sh.isAwaited() {
		sh.conn.Wake()
	}
}

// isAwaited reports whether a caller waits for an answer. It needs the lock.
func (sh *shard) isAwaited() bool {
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
