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

	"github.com/quorate/quorate/internal/channel"
)

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
