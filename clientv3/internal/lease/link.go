package lease

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
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

// Streams opens streams, and decides how to proceed when they end. One goroutine
// uses it, except for Wake.
type Streams interface {
	// Open opens a stream that ends with ctx.
	Open(ctx context.Context) (pb.Lease_LeaseKeepAliveClient, error)
	// Progress records that the latest stream has answered.
	Progress()
	// Next waits until it is time to open another stream, after one ended with err,
	// and returns nil. It returns err at once if another stream would fail the same
	// way, and ctx's error if ctx ends.
	Next(ctx context.Context, err error) error
	// Pause waits like Next, for any err. It returns an error only if ctx has ended
	// or no further stream will be opened.
	Pause(ctx context.Context, err error) error
	// Wake reports that a request waits for the next stream: it is opened at once,
	// unless streams fail repeatedly. Any goroutine may call it. It must not block.
	Wake()
	// Leaderless reports whether every endpoint has reported, since the last
	// Progress, that it knows no leader.
	Leaderless() bool
	// Removed returns a channel that is closed when the endpoint of the latest
	// stream is removed. It may be nil.
	Removed() <-chan struct{}
}

// maxBatch bounds the requests taken at once, so that their recorded send time is
// close to the real one.
const maxBatch = 256

// write sends due requests, and moves the stream when its endpoint is removed.
func (e *Engine) write() {
	var removed <-chan struct{}
	for {
		select {
		case <-e.sendable:
			e.sendDue()
			e.mu.Lock()
			removed = e.link.removed
			e.mu.Unlock()
		case <-removed:
			e.leave(removed)
			removed = nil
		case <-e.ctx.Done():
			return
		}
	}
}

// leave moves the stream, if it is the one whose endpoint was removed and not a
// later one.
func (e *Engine) leave(removed <-chan struct{}) {
	e.update(func(now time.Time) {
		if e.link.removed == removed {
			e.machine.Removed(now)
		}
	})
}

// sendDue sends until no request is due or the stream fails. The reader gets the
// reason of a failure.
func (e *Engine) sendDue() {
	for {
		stream, requests := e.take()
		for i := range requests {
			if stream.Send(&requests[i]) != nil {
				return
			}
		}
		if len(requests) < maxBatch {
			return
		}
	}
}

// take returns the next requests, none if the engine has ended.
func (e *Engine) take() (stream pb.Lease_LeaseKeepAliveClient, requests []pb.LeaseKeepAliveRequest) {
	e.update(func(now time.Time) {
		stream, requests = e.link.stream, e.machine.Take(now, maxBatch)
	})
	return stream, requests
}

// prepareNext waits until it is time to open another stream. An error means that no
// further stream will be opened.
func (e *Engine) prepareNext(cause error) error {
	ctx, cancel := e.fastReopen()
	defer cancel()
	err := e.config.Streams.Next(ctx, cause)
	if e.config.Streams.Leaderless() {
		e.update(e.machine.Leaderless)
	}
	if err == nil || ctx.Err() != nil {
		return nil
	}
	e.update(func(now time.Time) { e.machine.Refused(now, err) })
	if err := e.config.Streams.Pause(ctx, cause); ctx.Err() == nil {
		return err
	}
	return nil
}

// fastReopen returns a context that ends with the engine, or when a lease can wait
// no longer for another stream. It has no deadline: Streams would take a deadline
// for the end of all attempts, and not start a wait that ends after it.
func (e *Engine) fastReopen() (context.Context, context.CancelFunc) {
	e.mu.Lock()
	longest := e.machine.Pause(time.Now())
	e.mu.Unlock()
	ctx, cancel := context.WithCancel(e.ctx)
	timer := time.AfterFunc(longest, cancel)
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}

// standing is the state of a lease with keepers. ttl and left are 0 while unknown.
type standing struct {
	id         int64
	ttl, left  time.Duration
	unanswered bool
}

// Inspect adds the leases of engines to a report. It shows those with the least time left, up to the limit of o.
func Inspect(engines []*Engine, o introspect.Options, into *introspect.Leases) {
	now := time.Now()
	all := make([]standing, 0, len(engines))
	for _, e := range engines {
		e.mu.Lock()
		all = append(all, e.machine.standings(now)...)
		e.mu.Unlock()
	}
	slices.SortFunc(all, shorter)
	ratio := 1.
	for _, s := range all {
		if s.unanswered {
			into.Unanswered++
		}
		if s.ttl > 0 {
			ratio = min(ratio, s.left.Seconds()/s.ttl.Seconds())
		}
	}
	into.KeptAlive = len(all)
	into.Shortest = make([]introspect.Lease, 0, min(len(all), o.Limit))
	for _, s := range all[:cap(into.Shortest)] {
		into.Shortest = append(into.Shortest, s.shown())
	}
	if len(all) > 0 && all[0].ttl > 0 {
		into.LeftSeconds, into.LeftRatio = into.Shortest[0].LeftSeconds, &ratio
	}
}

// shorter sorts the leases with less time left first, and unknown ones last.
func shorter(a, b standing) int {
	if a.ttl == 0 || b.ttl == 0 {
		return cmp.Or(cmp.Compare(b.ttl, a.ttl), cmp.Compare(a.id, b.id))
	}
	return cmp.Or(cmp.Compare(a.left, b.left), cmp.Compare(a.id, b.id))
}

func (s standing) shown() introspect.Lease {
	shown := introspect.Lease{ID: strconv.FormatInt(s.id, 16), TTLSeconds: s.ttl.Seconds(), Unanswered: s.unanswered}
	if s.ttl > 0 {
		left := s.left.Seconds()
		shown.LeftSeconds = &left
	}
	return shown
}

// standings returns all leases that have keepers.
func (m *Machine) standings(now time.Time) []standing {
	at := instant(now.Sub(m.epoch))
	all := make([]standing, 0, len(m.leases))
	for _, l := range m.leases {
		if l.keepers == 0 {
			continue
		}
		s := standing{id: l.id, unanswered: l.state != Waiting}
		if l.ttl > 0 {
			s.ttl, s.left = l.ttl, time.Duration(l.renewed.add(l.ttl)-at)
		}
		all = append(all, s)
	}
	return all
}
