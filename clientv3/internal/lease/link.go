package lease

import (
	"context"
	"errors"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errMoved ends a stream whose endpoint was removed.
var errMoved = errors.New("the endpoint of the stream was removed")

// errEnded stands for the end of a stream without an error: the member, or a
// proxy, is leaving.
var errEnded = status.Error(codes.Unavailable, "etcdclient: the endpoint ended the keepalive stream")

// link is the stream that there is, or that is being opened.
type link struct {
	lose    context.CancelCauseFunc // nil if there is none
	stream  Stream                  // nil until it is open
	removed <-chan struct{}         // closed when it has to move
}

// read opens one stream after the other, as long as there are leases, and reads
// them.
func (e *Engine) read() {
	outage := outage{log: e.config.Logger}
	for e.waitForLeases() {
		err := e.runStream(&outage)
		if e.ctx.Err() != nil {
			return
		}
		if errors.Is(err, errMoved) {
			continue
		}
		outage.note(err)
		if err := e.prepareNext(err); err != nil {
			e.stop(err)
		}
	}
}

// waitForLeases returns true when there is a lease to keep alive, and false when
// the engine has ended.
func (e *Engine) waitForLeases() bool {
	for e.ctx.Err() == nil {
		e.mu.Lock()
		wanted := e.machine.Wanted()
		e.mu.Unlock()
		if wanted {
			return true
		}
		select {
		case <-e.wanted:
		case <-e.ctx.Done():
		}
	}
	return false
}

// runStream opens a stream, reads it to its end, and returns why it ended.
func (e *Engine) runStream(outage *outage) error {
	ctx, cancel := context.WithCancelCause(e.ctx)
	defer cancel(nil)
	e.update(func(now time.Time) {
		e.link.lose = cancel
		e.machine.Opening(now)
	})
	stream, err := e.config.Streams.Open(ctx)
	if err == nil {
		err = e.receive(ctx, stream, outage)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx) // what we ended it for says more than how it ended
	}
	e.update(func(now time.Time) {
		e.link = link{}
		e.machine.Lost(now, err)
	})
	return err
}

// receive reads a stream to its end, and returns why it ended.
func (e *Engine) receive(ctx context.Context, stream Stream, outage *outage) error {
	e.follow(ctx, stream)
	for first := true; ; first = false {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			err = errEnded
		}
		if err != nil {
			return err
		}
		e.config.Streams.Progress()
		if first {
			e.follow(ctx, stream) // until now grpc may have moved it
			outage.end()
		}
		e.answered(resp)
	}
}

// answered hands an answer to the machine.
func (e *Engine) answered(resp *pb.LeaseKeepAliveResponse) {
	var renewal Renewal
	var known bool
	e.update(func(now time.Time) { renewal, known = e.machine.Answered(now, resp) })
	e.reportRenewal(renewal, known)
}

// follow gives the writer the stream and what tells that it has to move, unless
// the stream was given up already.
func (e *Engine) follow(ctx context.Context, stream Stream) {
	removed := e.config.Streams.Removed()
	e.update(func(now time.Time) {
		if ctx.Err() != nil {
			return
		}
		if e.link.stream == nil {
			e.link.stream = stream
			e.machine.Opened(now)
		}
		if e.link.removed != removed {
			e.link.removed = removed
			signal(e.sendable)
		}
	})
}

// loseLocked gives the stream up.
func (e *Engine) loseLocked(now time.Time, err error) {
	if e.link.lose != nil {
		e.link.lose(err)
	}
	e.link = link{}
	e.machine.Lost(now, err)
}
