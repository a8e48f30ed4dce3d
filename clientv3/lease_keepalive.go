package clientv3

import (
	"context"
	"errors"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc"

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
