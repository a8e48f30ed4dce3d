package lease

import (
	"context"
	"errors"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/observe"
)

// errMoved ends a stream whose endpoint was removed.
var errMoved = errors.New("the endpoint of the stream was removed")

// errEnded replaces the EOF of a stream: the member or a proxy is shutting down.
var errEnded = status.Error(codes.Unavailable, "etcdclient: the endpoint ended the keepalive stream")

// link is the present stream, or the one that is being opened.
type link struct {
	lose    context.CancelCauseFunc       // ends the stream; nil if there is none
	stream  pb.Lease_LeaseKeepAliveClient // nil until it is open
	removed <-chan struct{}               // closed when its endpoint is removed
}

// read opens and reads one stream after the other while there are leases.
func (e *Engine) read() {
	for e.waitForLeases() {
		err := e.runStream()
		if e.ctx.Err() != nil {
			return
		}
		if errors.Is(err, errMoved) {
			continue
		}
		if err := e.prepareNext(err); err != nil {
			e.stop(err)
		}
	}
}

// waitForLeases blocks until there is a lease to keep alive. It returns false when
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

// runStream opens a stream, reads it until it ends, and returns the reason.
func (e *Engine) runStream() error {
	ctx, cancel := context.WithCancelCause(e.ctx)
	defer cancel(nil)
	e.update(func(now time.Time) {
		e.link.lose = cancel
		e.machine.Opening(now)
	})
	stream, err := e.config.Streams.Open(ctx)
	if err == nil {
		err = e.receive(ctx, stream)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx) // the engine's own reason is more precise
	}
	e.update(func(now time.Time) {
		e.link = link{}
		e.machine.Lost(now, err)
	})
	return err
}

// receive reads a stream until it ends, and returns the reason.
func (e *Engine) receive(ctx context.Context, stream pb.Lease_LeaseKeepAliveClient) error {
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
			e.follow(ctx, stream) // before the first answer gRPC may retry the stream elsewhere
		}
		e.answered(resp)
	}
}

// answered passes an answer to the machine.
func (e *Engine) answered(resp *pb.LeaseKeepAliveResponse) {
	var renewal observe.LeaseRenewal
	var known bool
	e.update(func(now time.Time) { renewal, known = e.machine.Answered(now, resp) })
	if known {
		e.config.Observer.LeaseRenewed(renewal)
	}
}

// follow gives the writer the stream and the channel that signals the removal of
// its endpoint, unless the stream is already lost.
func (e *Engine) follow(ctx context.Context, stream pb.Lease_LeaseKeepAliveClient) {
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
			pause.Signal(e.sendable)
		}
	})
}

func (e *Engine) loseLocked(now time.Time, err error) {
	if e.link.lose != nil {
		e.link.lose(err)
	}
	e.link = link{}
	e.machine.Lost(now, err)
}
