package clientv3

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3/internal/lease"
	"github.com/quorate/quorate/internal/channel"
	"github.com/quorate/quorate/observe"
)

// LeaseID identifies a lease.
type LeaseID int64

// NoLease is the id that stands for the absence of a lease.
const NoLease LeaseID = 0

// MaxLeaseTTL is the largest TTL, in seconds, that the server grants: about 285
// years.
const MaxLeaseTTL = 9000000000

// LeaseGrantResponse is the response to [Lease.Grant].
type LeaseGrantResponse struct {
	*pb.ResponseHeader
	// ID identifies the lease.
	ID LeaseID
	// TTL is the time that was granted, in seconds. It is at least what was asked
	// for: the server raises it to one and a half times its election timeout.
	TTL int64
	// Error is an error text of the server; etcd leaves it empty.
	Error string
}

// LeaseRevokeResponse is the response to [Lease.Revoke].
type LeaseRevokeResponse pb.LeaseRevokeResponse

// LeaseTimeToLiveResponse is the response to [Lease.TimeToLive].
type LeaseTimeToLiveResponse struct {
	*pb.ResponseHeader
	// ID identifies the lease.
	ID LeaseID `json:"id"`

	// TTL is the time left in seconds, rounded down; -1 when there is no such lease.
	TTL int64 `json:"ttl"`

	// GrantedTTL is the time in seconds that the lease was granted for; 0 when there
	// is no such lease.
	GrantedTTL int64 `json:"granted-ttl"`

	// Keys are the keys attached to the lease, if [WithAttachedKeys] asked for them.
	Keys [][]byte `json:"keys"`
}

// LeaseStatus is one lease of a list.
type LeaseStatus struct {
	// ID identifies the lease.
	ID LeaseID `json:"id"`
}

// LeaseLeasesResponse is the response to [Lease.Leases].
type LeaseLeasesResponse struct {
	*pb.ResponseHeader
	// Leases are all leases of the cluster, in no particular order.
	Leases []LeaseStatus `json:"leases"`
}

// Lease grants leases, keeps them alive, and revokes them. All methods are repeated
// after a fault for as long as ctx allows.
type Lease interface {
	// Grant creates a lease that lasts ttl seconds. The client chooses its id, so
	// that a repeated request cannot create a second lease. When the first request
	// was carried out and only its response was lost, the lease has been running
	// since then.
	Grant(ctx context.Context, ttl int64) (*LeaseGrantResponse, error)

	// Revoke ends a lease and deletes the keys attached to it. A lease that does not
	// exist gives rpctypes.ErrLeaseNotFound, unless it was an earlier attempt of this
	// very call that may have ended it.
	Revoke(ctx context.Context, id LeaseID) (*LeaseRevokeResponse, error)

	// TimeToLive tells how long a lease will last. A lease that does not exist is not
	// an error: its TTL is -1.
	TimeToLive(ctx context.Context, id LeaseID, opts ...LeaseOption) (*LeaseTimeToLiveResponse, error)

	// Leases lists all leases.
	Leases(ctx context.Context) (*LeaseLeasesResponse, error)

	// KeepAlive keeps a lease alive until ctx ends, and delivers the answers. It
	// does not wait for the first one. A renewal is sent a third of the TTL after
	// the one before, whether or not the channel is read: it holds 16 responses,
	// and what does not fit is dropped, with a line in the log.
	//
	// All leases of a client share one stream. When its member does not answer,
	// loses its leader, or leaves, the stream is opened elsewhere, within a third of
	// the shortest TTL concerned, and what is unanswered is sent again. Where all
	// members are slow to answer, each next stream is given more time. A lease
	// outlives an outage that ends before its TTL does by more than the longest pause
	// between two attempts, 1.5 s by default.
	//
	// The channel is closed when
	//
	//   - the server says that there is no such lease, or [Lease.Revoke] of this
	//     service has ended it,
	//   - the TTL has passed since the last request that was answered was sent: the
	//     lease may have ended,
	//   - no first answer came for DialTimeout plus 1 s, or for 5 s if there is no
	//     DialTimeout; a lease that this service has granted or renewed has at least
	//     what is left of its TTL,
	//   - ctx was made by [WithRequireLeader] and every endpoint that can be reached
	//     says that it knows no leader,
	//   - ctx ends, or Close is called.
	//
	// What was not read until then can still be read, unless the lease does not exist
	// any more: then unread answers are taken back, as none of them is true any more.
	//
	// [WithLeaseMonitor] tells which of these it was, and until when the lease
	// lives, see [LeaseMonitor.Deadline]. After Close the channel is closed from the beginning, and the
	// error is an [ErrKeepAliveHalted]; there is no other error.
	//
	// Several KeepAlives of one lease share its renewals; each has a channel of its
	// own.
	KeepAlive(ctx context.Context, id LeaseID) (<-chan *LeaseKeepAliveResponse, error)

	// KeepAliveOnce renews a lease once. The request goes over the stream that
	// KeepAlive uses, and is sent again after a fault until ctx ends; without a
	// deadline it waits for as long as no member answers. If there is no such lease
	// the error is rpctypes.ErrLeaseNotFound. If the server refuses the request,
	// for want of permission or because it knows no leases (kine), it is the
	// server's error.
	//
	// The request has a stream of its own if ctx has outgoing metadata beside that
	// of [WithRequireLeader], which is sent with it; after Close, or when Close comes
	// in the middle of it; and over a LeaseClient of the program
	// ([NewLeaseFromLeaseClient]), where each error but Unavailable and Internal is
	// final.
	KeepAliveOnce(ctx context.Context, id LeaseID) (*LeaseKeepAliveResponse, error)

	// Close ends all KeepAlives; their channels are closed. It revokes nothing. It
	// returns nil.
	Close() error
}

type lessor struct {
	remote   pb.LeaseClient
	callOpts []grpc.CallOption
	newID    func() LeaseID
	retrier  func() *channel.Retrier
	streams  func(*channel.Retrier) pb.LeaseClient // opens streams over a Retrier
	engine   *lease.Engine
	drops    dropLog
}

// NewLease returns the Lease service of a client.
func NewLease(c *Client) Lease {
	return NewLeaseFromLeaseClient(RetryLeaseClient(c), c, c.cfg.DialTimeout+time.Second)
}

// NewLeaseFromLeaseClient returns the Lease service over remote, with the call
// options and the logger of c. c may be nil. A client of the program's own, a mock for
// instance, sees what it would see of the official client: Grant leaves the choice of
// the id to the server and is not repeated, and each KeepAliveOnce opens a stream. A KeepAlive of a lease that this
// service did not grant is given up if its first answer takes longer than
// keepAliveTimeout; 1 s, or nothing, stands for 5 s.
func NewLeaseFromLeaseClient(remote pb.LeaseClient, c *Client, keepAliveTimeout time.Duration) Lease {
	log := func() *zap.Logger { return loggerOf(c) }
	told := observerOf(c)
	retrier := func() *channel.Retrier { return c.streamRetrier(pb.Lease_LeaseKeepAlive_FullMethodName).Endless() }
	overRetrier := func(r *channel.Retrier) pb.LeaseClient { return over(c, r, remote, pb.NewLeaseClient) }
	streams := retrier()
	l := &lessor{
		remote:   remote,
		callOpts: callOptsOf(c),
		newID:    randomLeaseID,
		retrier:  retrier,
		streams:  overRetrier,
		engine: lease.New(lease.Config{
			Streams:     &leaseStreams{Retrier: streams, given: remote, remote: overRetrier(streams), opts: callOptsOf(c)},
			FirstAnswer: firstAnswer(keepAliveTimeout),
			Logger:      log,
			Renewed: func(r lease.Renewal) {
				told.LeaseRenewed(observe.LeaseRenewal{ID: r.ID, Margin: r.Margin, TTL: r.TTL})
			},
			Lost: func(l lease.Loss) { told.LeaseLost(observe.LeaseLoss{ID: l.ID, Err: l.Err}) },
		}),
		drops: dropLog{log: log},
	}
	if c != nil {
		c.lessors.add(l)
	}
	return l
}

func (l *lessor) TimeToLive(ctx context.Context, id LeaseID, opts ...LeaseOption) (*LeaseTimeToLiveResponse, error) {
	resp, err := invoke(ctx, l.remote.LeaseTimeToLive, toTimeToLiveRequest(id, opts), l.callOpts)
	if err != nil {
		return nil, err
	}
	return &LeaseTimeToLiveResponse{
		ResponseHeader: resp.GetHeader(),
		ID:             LeaseID(resp.ID),
		TTL:            resp.TTL,
		GrantedTTL:     resp.GrantedTTL,
		Keys:           resp.Keys,
	}, nil
}

func (l *lessor) Leases(ctx context.Context) (*LeaseLeasesResponse, error) {
	resp, err := invoke(ctx, l.remote.LeaseLeases, &pb.LeaseLeasesRequest{}, l.callOpts)
	if err != nil {
		return nil, err
	}
	leases := make([]LeaseStatus, len(resp.Leases))
	for i, lease := range resp.Leases {
		leases[i].ID = LeaseID(lease.ID)
	}
	return &LeaseLeasesResponse{ResponseHeader: resp.GetHeader(), Leases: leases}, nil
}

func (l *lessor) Close() error {
	l.engine.Close(ErrKeepAliveHalted{Reason: context.Canceled})
	l.drops.writing.Wait()
	return nil
}
