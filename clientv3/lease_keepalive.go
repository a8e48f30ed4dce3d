package clientv3

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/internal/lease"
	"github.com/quorate/quorate/internal/channel"
)

// LeaseResponseChSize is how many responses the channels of [Lease.KeepAlive]
// hold. It is a variable for tests only, and must not be changed while a
// KeepAlive is being called.
var LeaseResponseChSize = 16

// LeaseKeepAliveResponse is the response to one keepalive. KeepAlives of the same
// lease may share its header: do not modify it.
type LeaseKeepAliveResponse struct {
	*pb.ResponseHeader
	// ID identifies the lease.
	ID LeaseID
	// TTL is the renewed time to live, in seconds.
	TTL int64
}

// ErrKeepAliveHalted reports that all keepalives have ended because the Lease or
// its client was closed.
type ErrKeepAliveHalted struct { //nolint:errname // the name is the official API's
	// Reason is context.Canceled after Close, and otherwise the error that ended
	// the client.
	Reason error
}

// Error returns the text, including the reason's.
func (e ErrKeepAliveHalted) Error() string {
	if e.Reason == nil {
		return "etcdclient: leases keep alive halted"
	}
	return "etcdclient: leases keep alive halted: " + e.Reason.Error()
}

// Unwrap returns the reason.
func (e ErrKeepAliveHalted) Unwrap() error { return e.Reason }

// defaultFirstAnswer bounds the wait for the first response if the client has no
// DialTimeout.
const defaultFirstAnswer = 5 * time.Second

// firstAnswer returns how long the first response may take. NewLease adds 1 s to
// the client's DialTimeout, so 1 s means that there is no DialTimeout.
func firstAnswer(keepAliveTimeout time.Duration) time.Duration {
	if keepAliveTimeout <= 0 || keepAliveTimeout == time.Second {
		return defaultFirstAnswer
	}
	return keepAliveTimeout
}

func (l *lessor) KeepAlive(ctx context.Context, id LeaseID) (<-chan *LeaseKeepAliveResponse, error) {
	k := &keeper{
		ch:      make(chan *LeaseKeepAliveResponse, LeaseResponseChSize),
		monitor: leaseMonitorOf(ctx),
		drops:   &l.drops,
	}
	k.subscriber = lease.Subscriber{Sink: k, RequireLeader: channel.RequiresLeader(ctx)}
	k.monitor.set(leaseState{})
	if err := l.engine.Subscribe(ctx, int64(id), &k.subscriber); err != nil {
		k.Close(err)
		return k.ch, err
	}
	return k.ch, nil
}

func (l *lessor) KeepAliveOnce(ctx context.Context, id LeaseID) (*LeaseKeepAliveResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !l.sharesStream(ctx) {
		return l.renewAlone(ctx, id)
	}
	o := &once{done: make(chan struct{})}
	o.subscriber = lease.Subscriber{Sink: o, Once: true, RequireLeader: channel.RequiresLeader(ctx)}
	if l.engine.Subscribe(ctx, int64(id), &o.subscriber) != nil {
		return l.renewAlone(ctx, id)
	}
	<-o.done
	if errors.As(o.err, &ErrKeepAliveHalted{}) {
		return l.renewAlone(ctx, id)
	}
	return o.resp, ContextError(ctx, o.err)
}

// keeper forwards the events of a lease to the channel of a KeepAlive.
type keeper struct {
	subscriber lease.Subscriber
	ch         chan *LeaseKeepAliveResponse
	monitor    *LeaseMonitor
	drops      *dropLog
}

func (k *keeper) Valid(renewed time.Time, ttl time.Duration) {
	k.monitor.set(leaseState{renewed: renewed, ttl: ttl})
}

// Deliver drops a response if the channel is full: the lease is kept alive whether
// or not the channel is read.
func (k *keeper) Deliver(resp *pb.LeaseKeepAliveResponse) {
	select {
	case k.ch <- keepAliveResponse(resp):
	default:
		k.drops.note(k.ch, resp)
	}
}

// Close also discards the unread responses of a lease that no longer exists: their
// TTLs are over.
func (k *keeper) Close(cause error) {
	s := k.monitor.now()
	s.ended = cause
	k.monitor.set(s)
	discard := errors.Is(cause, rpctypes.ErrLeaseNotFound)
	for discard {
		select {
		case <-k.ch:
		default:
			discard = false
		}
	}
	close(k.ch)
}

// once keeps the response for a KeepAliveOnce.
type once struct {
	subscriber lease.Subscriber
	resp       *LeaseKeepAliveResponse
	err        error
	done       chan struct{}
}

func (o *once) Valid(time.Time, time.Duration)          {}
func (o *once) Deliver(resp *pb.LeaseKeepAliveResponse) { o.resp = keepAliveResponse(resp) }

func (o *once) Close(cause error) {
	o.err = cause
	close(o.done)
}

func keepAliveResponse(resp *pb.LeaseKeepAliveResponse) *LeaseKeepAliveResponse {
	return &LeaseKeepAliveResponse{ResponseHeader: resp.GetHeader(), ID: LeaseID(resp.ID), TTL: resp.TTL}
}

// dropLogInterval is the least time between two lines about dropped responses.
const dropLogInterval = time.Minute

// dropLog logs dropped responses, one line for all leases together. The leases do
// not wait for the log.
type dropLog struct {
	log     func() *zap.Logger
	writing sync.WaitGroup // at most a line a minute

	mu      sync.Mutex
	dropped int // since the last line
	last    time.Time
}

func (d *dropLog) note(ch chan *LeaseKeepAliveResponse, resp *pb.LeaseKeepAliveResponse) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropped++
	if !d.last.IsZero() && time.Since(d.last) < dropLogInterval {
		return
	}
	fields := []zap.Field{
		zap.Int("queue-size", len(ch)), zap.Int("queue-capacity", cap(ch)),
		zap.Int64("lease-id", resp.ID), zap.Int("dropped", d.dropped),
	}
	d.dropped, d.last = 0, time.Now()
	d.writing.Go(func() {
		d.log().Warn("lease keepalive response queue is full; dropping response send", fields...)
	})
}

// leaseStreams opens keepalive streams one after the other.
type leaseStreams struct {
	*channel.Retrier
	own    bool           // remote is the client's own
	remote pb.LeaseClient // opens streams over the Retrier if it is
	opts   []grpc.CallOption
}

func (l *lessor) streams() *leaseStreams {
	retrier := l.client.streamRetrier(pb.Lease_LeaseKeepAlive_FullMethodName).Endless()
	return &leaseStreams{Retrier: retrier, own: isOwn(l.remote), remote: over(l.client, retrier, l.remote, pb.NewLeaseClient), opts: l.callOpts}
}

// Open requires a leader: the stream ends when its member loses its leader, and the
// leases are renewed through another member.
func (s *leaseStreams) Open(ctx context.Context) (pb.Lease_LeaseKeepAliveClient, error) {
	return s.open(WithRequireLeader(ctx))
}

func (s *leaseStreams) open(ctx context.Context) (pb.Lease_LeaseKeepAliveClient, error) {
	if s.own {
		return s.remote.LeaseKeepAlive(ctx, s.opts...)
	}
	return openForeign(ctx, s.opts, s.remote.LeaseKeepAlive)
}

// Pause fails only when no further stream will be opened.
func (s *leaseStreams) Pause(ctx context.Context, cause error) error {
	if err := s.Retrier.Pause(ctx, cause); err != nil {
		return ErrKeepAliveHalted{Reason: err}
	}
	return nil
}

// errStreamEnded replaces the EOF of a stream without a response: the member or a
// proxy is shutting down.
var errStreamEnded = status.Error(codes.Unavailable, "etcdclient: the endpoint ended the keepalive stream without an answer")

// sharesStream reports whether a KeepAliveOnce can use the shared stream. Outgoing
// metadata of the caller, other than require-leader, would be lost there. A program's
// own client gets one stream per call, as from the official client.
func (l *lessor) sharesStream(ctx context.Context) bool {
	md, _ := metadata.FromOutgoingContext(ctx)
	for key := range md {
		if key != rpctypes.MetadataRequireLeaderKey {
			return false
		}
	}
	return isOwn(l.remote)
}

// renewAlone renews a lease over a separate stream: the shared one does not fit the
// call, see sharesStream, or was closed before or during the call. The official client
// allows a KeepAliveOnce after Close, and programs rely on it.
func (l *lessor) renewAlone(ctx context.Context, id LeaseID) (*LeaseKeepAliveResponse, error) {
	for streams := l.streams(); ; {
		start := time.Now()
		resp, err := streams.ask(ctx, id)
		switch {
		case err == nil && resp.TTL <= 0:
			return keepAliveResponse(resp), rpctypes.ErrLeaseNotFound
		case err == nil:
			l.engine.Granted(start, resp.ID, resp.TTL)
			return keepAliveResponse(resp), nil
		case !streams.own && isHalt(err):
			return nil, ContextError(ctx, err)
		case errors.Is(err, io.EOF):
			err = errStreamEnded
		}
		if err := streams.Next(ctx, err); err != nil {
			return nil, ContextError(ctx, err)
		}
	}
}

// ask makes one attempt. A member without a leader cannot renew the lease, so
// the client's own stream requires a leader: it ends at once there, and the next
// one goes to another member.
func (s *leaseStreams) ask(ctx context.Context, id LeaseID) (*pb.LeaseKeepAliveResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.own {
		ctx = WithRequireLeader(ctx)
	}
	stream, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		return nil, streamError(stream, err)
	}
	return stream.Recv()
}

// streamError returns why a Send failed: Send itself returns only io.EOF.
func streamError(stream pb.Lease_LeaseKeepAliveClient, err error) error {
	if _, cause := stream.Recv(); cause != nil {
		return cause
	}
	return err
}

// ErrLeaseUnanswered reports that a KeepAlive ended because its lease may have
// expired: the TTL has passed since the last answered request. It is wrapped,
// together with the error of the latest stream if that failed.
var ErrLeaseUnanswered = lease.ErrUnanswered

// LeaseMonitor reports the state of a KeepAlive's lease, see [WithLeaseMonitor].
// The zero value is ready to use. It serves one KeepAlive at a time, and is safe
// for concurrent use.
type LeaseMonitor struct {
	state atomic.Pointer[leaseState] // replaced by the KeepAlive, nil before the first
}

// leaseState is what a KeepAlive knows of its lease.
type leaseState struct {
	renewed time.Time
	ttl     time.Duration
	ended   error
}

func (m *LeaseMonitor) now() leaseState { return *cmp.Or(m.state.Load(), new(leaseState)) }

// LastRenewal returns the send time of the latest request whose response showed
// that the lease is alive. Before the first keepalive response it is the send time
// of the grant, if this service granted the lease, and otherwise zero.
func (m *LeaseMonitor) LastRenewal() time.Time { return m.now().renewed }

// Deadline returns until when the lease lives unless it is revoked: LastRenewal
// plus the TTL in the response. The leader counts from a later moment, after the
// request was sent, so it does not end the lease earlier. Deadline is zero if
// LastRenewal is.
//
// Two kinds of servers may end the lease earlier, because they answer without the
// leader. In etcd before 3.5.13 a replaced leader that does not know it yet
// confirms a renewal that its successor has not seen. etcd's grpc-proxy answers
// with the result of its own renewal, which it may have sent before the request
// arrived.
//
// The time is on the monotonic clock, which on most systems stops while the machine
// is suspended: after a suspend the lease may have expired before its Deadline.
func (m *LeaseMonitor) Deadline() time.Time {
	s := m.now()
	if s.renewed.IsZero() {
		return s.renewed
	}
	return s.renewed.Add(s.ttl)
}

// Err returns nil while the lease is kept alive, and after the channel is closed
// the reason:
//
//   - rpctypes.ErrLeaseNotFound: the lease does not exist according to the server,
//     or this service has revoked it;
//   - [ErrLeaseUnanswered], wrapped: the Deadline has passed without a response, or
//     the first response did not arrive in time;
//   - rpctypes.ErrNoLeader, for a context made by [WithRequireLeader];
//   - the error of the context;
//   - [ErrKeepAliveHalted]: the Lease or its client was closed.
func (m *LeaseMonitor) Err() error { return m.now().ended }

func (m *LeaseMonitor) set(s leaseState) { m.state.Store(&s) }

type leaseMonitorKey struct{}

// WithLeaseMonitor returns a context whose KeepAlive reports to m until when the lease
// lives, see [LeaseMonitor.Deadline], and why the channel was closed.
func WithLeaseMonitor(ctx context.Context, m *LeaseMonitor) context.Context {
	return context.WithValue(ctx, leaseMonitorKey{}, m)
}

// leaseMonitorOf returns the monitor of a context, and a new one if it has none.
func leaseMonitorOf(ctx context.Context) *LeaseMonitor {
	m, _ := ctx.Value(leaseMonitorKey{}).(*LeaseMonitor)
	return cmp.Or(m, new(LeaseMonitor))
}
