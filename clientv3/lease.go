package clientv3

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
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

// Lease grants and revokes leases. All methods are repeated after a fault for as
// long as ctx allows.
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

	// Close releases what the service holds. It revokes nothing. It returns nil.
	Close() error
}

type lessor struct {
	remote   pb.LeaseClient
	callOpts []grpc.CallOption
	newID    func() LeaseID
}

// NewLease returns the Lease service of a client.
func NewLease(c *Client) Lease { return NewLeaseFromLeaseClient(RetryLeaseClient(c), c, 0) }

// NewLeaseFromLeaseClient returns the Lease service over remote, with the call
// options of c. c may be nil. The duration bounds how long a keepalive waits for its
// first response; no other method uses it.
func NewLeaseFromLeaseClient(remote pb.LeaseClient, c *Client, _ time.Duration) Lease {
	return &lessor{remote: remote, callOpts: callOptsOf(c), newID: randomLeaseID}
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

func (l *lessor) Close() error { return nil }
