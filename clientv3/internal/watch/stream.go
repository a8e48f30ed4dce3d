package watch

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

const (
	// proven is the age from which on any response shows that a stream works. One
	// that breaks sooner, and without having delivered an event, counts as a
	// failure, and the next waits longer.
	proven = time.Second

	// minLeaderRetry is how long a stream stays on a member without a leader before
	// one with a leader is looked for again: few elections take longer. While none is
	// found it doubles, up to maxLeaderRetry.
	minLeaderRetry = 500 * time.Millisecond
	maxLeaderRetry = 5 * time.Second
)

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
	// Disown is told that the server refused a request for the stream's token, and
	// reports whether another stream would carry another token.
	Disown(refusal error) bool
	// Resumed is told that watches go on on the latest stream: how many there are on it,
	// and how long after the end of the one before the server created the first of them.
	// It must not block.
	Resumed(watches int, gap time.Duration)
}

// errMove ends a stream that is to be opened elsewhere.
var errMove = errors.New("the stream moves")

// run opens one stream after the other until the shard ends.
//
// Every stream asks the server to say when it has lost its leader, whether or
// not the callers want to hear of it: the stream then moves. Where no endpoint
// knows a leader, callers who do not mind are served without one for a while.
func (sh *shard) run() {
	defer sh.cancel()
	strict, retry := true, minLeaderRetry
	for {
		began := time.Now()
		err := sh.attempt(strict, retry)
		switch {
		case !strict:
			retry = min(2*retry, maxLeaderRetry)
		case time.Since(began) > proven:
			retry = minLeaderRetry
		}
		switch {
		case sh.ctx.Err() != nil:
			return
		case errors.Is(err, errMove):
			strict = true
			continue
		}
		if err := sh.conn.Next(sh.ctx, err); err != nil {
			if sh.ctx.Err() == nil {
				sh.fail(err)
			}
			return
		}
		strict = !sh.conn.Leaderless()
	}
}

// attempt opens a stream and reads it to its end. One that does without a leader ends
// after the time that is given.
func (sh *shard) attempt(strict bool, leaderRetry time.Duration) error {
	ctx, cancel := context.WithCancelCause(sh.ctx)
	defer cancel(nil)
	stream, err := sh.conn.Open(ctx, strict)
	if err != nil {
		return err
	}
	wake := sh.connect()
	defer sh.disconnect()
	greeting := sh.awaitGreeting(wake, func() { cancel(errUngreeted) })
	defer greeting.stop()
	wr := &writer{
		sh: sh, ctx: ctx, stream: stream, wake: wake, move: func() { cancel(errMove) },
		removed: sh.conn.Removed(), settled: make(chan (<-chan struct{}), 1),
	}
	if !strict {
		wr.leave = time.After(leaderRetry)
	}
	sh.engine.running.Go(wr.run)
	return sh.read(ctx, stream, wr.settled)
}

// read takes in responses until the stream ends. With the first one it is
// settled where the stream is: until then grpc may move it.
func (sh *shard) read(ctx context.Context, stream pb.Watch_WatchClient, settled chan<- (<-chan struct{})) error {
	opened := time.Now()
	for first := true; ; first = false {
		resp, err := stream.Recv()
		if err == nil {
			err = sh.receive(resp)
		}
		worked := time.Since(opened) > proven
		switch {
		case err == nil:
			worked = worked || len(resp.Events) > 0
		case errors.Is(context.Cause(ctx), errMove):
			return errMove
		case errors.Is(context.Cause(ctx), errUngreeted):
			return errUngreeted
		default:
			worked = worked && !first // it lived long, if quietly
		}
		if worked {
			sh.conn.Progress()
		}
		if err != nil {
			return err
		}
		if first {
			settled <- sh.conn.Removed()
		}
	}
}

func (sh *shard) connect() chan struct{} {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.wake = make(chan struct{}, 1)
	sh.opened, sh.stale, sh.accepted = time.Now(), time.Time{}, false
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
