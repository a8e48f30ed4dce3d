package clientv3

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3/internal/lease"
	"github.com/quorate/quorate/internal/channel"
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
	// TTL is the time that was granted, in seconds. It is at least the requested
	// TTL: the server raises it to at least 1.5 times its election timeout.
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

	// Keys are the keys attached to the lease, with [WithAttachedKeys] only.
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
	// that a repeated request cannot create a second lease. If the first request
	// was executed and only its response was lost, the TTL has been running since
	// then.
	Grant(ctx context.Context, ttl int64) (*LeaseGrantResponse, error)

	// Revoke ends a lease and deletes the keys attached to it. If the lease does not
	// exist the error is rpctypes.ErrLeaseNotFound, unless an earlier attempt of the
	// same call may have revoked it.
	Revoke(ctx context.Context, id LeaseID) (*LeaseRevokeResponse, error)

	// TimeToLive returns the remaining time of a lease. A lease that does not exist
	// is not an error: its TTL is -1.
	TimeToLive(ctx context.Context, id LeaseID, opts ...LeaseOption) (*LeaseTimeToLiveResponse, error)

	// Leases lists all leases.
	Leases(ctx context.Context) (*LeaseLeasesResponse, error)

	// KeepAlive keeps a lease alive until ctx ends, and delivers the responses. It
	// does not wait for the first one. The client sends a renewal a third of the
	// TTL after the previous one, whether or not the channel is read. The channel
	// holds 16 responses; the client drops further ones and logs it.
	//
	// All leases of a client share one stream. When its member does not answer, loses
	// its leader or is removed, the client opens the stream on another member, within
	// a third of the shortest TTL on it, and sends unanswered renewals again. If all
	// members are slow, each further stream gets more time to answer. A lease
	// survives an outage if more of its TTL is left afterwards than the longest pause
	// between two attempts, 1.5 s by default.
	//
	// The channel is closed when
	//
	//   - the server says that there is no such lease, or [Lease.Revoke] of this
	//     service has ended it,
	//   - the TTL has passed since the client sent the last request that was
	//     answered: the lease may have expired,
	//   - the first response did not arrive within DialTimeout plus 1 s, or 5 s
	//     without a DialTimeout; for a lease that this service granted or renewed,
	//     the limit is at least the rest of its TTL,
	//   - ctx was made by [WithRequireLeader] and every reachable endpoint reports
	//     that it knows no leader,
	//   - ctx ends, or Close is called.
	//
	// Unread responses stay in the closed channel, unless the lease no longer exists:
	// then the client discards them, as they are no longer true.
	//
	// [WithLeaseMonitor] reports which of these closed the channel, and until when the lease lives,
	// see [LeaseMonitor.Deadline]. After Close, KeepAlive returns a closed channel and an
	// [ErrKeepAliveHalted]; there is no other error.
	//
	// Several KeepAlives of one lease share its renewals; each has its own channel.
	KeepAlive(ctx context.Context, id LeaseID) (<-chan *LeaseKeepAliveResponse, error)

	// KeepAliveOnce renews a lease once. The request uses KeepAlive's stream, and
	// is sent again after a fault until ctx ends; without a deadline it waits until
	// a member answers. If the lease does not exist the error is
	// rpctypes.ErrLeaseNotFound. If the server rejects the request, because
	// permission is missing or it has no leases (kine), or says Canceled when it is asked again (as
	// etcd's grpc-proxy does if it is refused), the error is the server's; an error of
	// an interceptor in Config.DialOptions that is no gRPC status is returned, too.
	//
	// The request uses its own stream in three cases: if ctx has outgoing metadata
	// other than that of [WithRequireLeader], which is sent with it; if Close is
	// called before or during it; and over a LeaseClient of the program
	// ([NewLeaseFromLeaseClient]), where every error except Unavailable and Internal
	// is final.
	KeepAliveOnce(ctx context.Context, id LeaseID) (*LeaseKeepAliveResponse, error)

	// Close ends all KeepAlives; their channels are closed. It revokes nothing. It
	// returns nil.
	Close() error
}

type lessor struct {
	remote   pb.LeaseClient
	client   *Client
	callOpts []grpc.CallOption
	engine   *lease.Engine
	drops    dropLog
}

// NewLease returns the Lease service of a client.
func NewLease(c *Client) Lease {
	return NewLeaseFromLeaseClient(RetryLeaseClient(c), c, c.cfg.DialTimeout+time.Second)
}

// NewLeaseFromLeaseClient returns the Lease service over remote, with the call options and the
// logger of c. c may be nil. A LeaseClient of the program, such as a mock, receives the same calls
// as from the official client: Grant lets the server choose the id and is not retried, and each
// KeepAliveOnce opens a stream. A KeepAlive of a lease that this service did not grant ends if its
// first response takes longer than keepAliveTimeout; 0 and 1 s mean 5 s.
func NewLeaseFromLeaseClient(remote pb.LeaseClient, c *Client, keepAliveTimeout time.Duration) Lease {
	c = orNone(c)
	l := &lessor{remote: remote, client: c, callOpts: c.callOpts, drops: dropLog{log: c.GetLogger}}
	l.engine = lease.New(lease.Config{
		Streams: l.streams(), FirstAnswer: firstAnswer(keepAliveTimeout), Observer: observerOf(c),
	})
	c.lessors.add(l)
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

// LeaseOp holds the options of [Lease.TimeToLive].
type LeaseOp struct {
	id           LeaseID
	attachedKeys bool
}

// LeaseOption sets a property of a lease operation.
type LeaseOption func(*LeaseOp)

// WithAttachedKeys makes TimeToLive list the keys attached to the lease. With
// authentication on, it needs permission to read them.
func WithAttachedKeys() LeaseOption {
	return func(op *LeaseOp) { op.attachedKeys = true }
}

func toTimeToLiveRequest(id LeaseID, opts []LeaseOption) *pb.LeaseTimeToLiveRequest {
	op := LeaseOp{id: id}
	for _, opt := range opts {
		opt(&op)
	}
	return &pb.LeaseTimeToLiveRequest{ID: int64(op.id), Keys: op.attachedKeys}
}

// maxGrantIDs bounds the ids that one Grant tries. A second one is needed when the
// first lease expired before its grant was known, which takes an outage longer than
// the TTL. More than a few mean that the server is broken.
const maxGrantIDs = 3

func (l *lessor) Grant(ctx context.Context, ttl int64) (*LeaseGrantResponse, error) {
	if !isOwn(l.remote) {
		return l.grant(ctx, NoLease, ttl)
	}
	var err error
	for range maxGrantIDs {
		var resp *LeaseGrantResponse
		resp, err = l.grant(ctx, randomLeaseID(), ttl)
		if err == nil || !errors.Is(err, rpctypes.ErrLeaseExist) {
			return resp, err
		}
	}
	return nil, err
}

// grant creates the lease with the given id, or with one that the server chooses. A
// given id is random, so if it is taken, an earlier attempt of this call created the
// lease and its response was lost. grant returns ErrLeaseExist if that lease has
// expired since.
func (l *lessor) grant(ctx context.Context, id LeaseID, ttl int64) (*LeaseGrantResponse, error) {
	start := time.Now()
	resp, err := invoke(ctx, l.remote.LeaseGrant, &pb.LeaseGrantRequest{ID: int64(id), TTL: ttl}, l.callOpts)
	if err == nil {
		l.engine.Granted(start, resp.ID, resp.TTL)
		return &LeaseGrantResponse{ResponseHeader: resp.GetHeader(), ID: LeaseID(resp.ID), TTL: resp.TTL, Error: resp.Error}, nil
	}
	if id == NoLease || !errors.Is(err, rpctypes.ErrLeaseExist) {
		return nil, err
	}
	granted, ttlErr := l.TimeToLive(ctx, id)
	if ttlErr != nil {
		return nil, ttlErr
	}
	if granted.TTL <= 0 {
		return nil, err
	}
	l.engine.Granted(start, int64(id), granted.GrantedTTL)
	return &LeaseGrantResponse{ResponseHeader: granted.ResponseHeader, ID: id, TTL: granted.GrantedTTL}, nil
}

func (l *lessor) Revoke(ctx context.Context, id LeaseID) (*LeaseRevokeResponse, error) {
	var ambiguous atomic.Bool
	opts := l.callOpts
	if isOwn(l.remote) {
		opts = append(slices.Clone(opts), channel.ReportAmbiguous(&ambiguous))
	}
	resp, err := invoke(ctx, l.remote.LeaseRevoke, &pb.LeaseRevokeRequest{ID: int64(id)}, opts)
	if err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound) {
		l.engine.Revoked(int64(id))
	}
	if errors.Is(err, rpctypes.ErrLeaseNotFound) && ambiguous.Load() {
		return l.revoked(ctx, id), nil
	}
	return (*LeaseRevokeResponse)(resp), err
}

// revoked makes a response for a revocation whose own response was lost. The lease
// is gone, as the caller wanted; the header is empty if no member answers any more.
func (l *lessor) revoked(ctx context.Context, id LeaseID) *LeaseRevokeResponse {
	header := &pb.ResponseHeader{}
	if gone, err := l.TimeToLive(ctx, id); err == nil {
		header = gone.ResponseHeader
	}
	return &LeaseRevokeResponse{Header: header}
}

// randomLeaseID returns a random positive id, like the server's own.
func randomLeaseID() LeaseID { return LeaseID(1 + rand.Int64N(math.MaxInt64)) }
