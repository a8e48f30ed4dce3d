package clientv3_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	. "github.com/quorate/quorate/clientv3"
)

func leaseOver(r *recorder) Lease {
	return NewLeaseFromLeaseClient(OwnLease(pb.NewLeaseClient(r)), nil, 0)
}

func TestLeaseCalls(t *testing.T) {
	r := &recorder{}
	lease := leaseOver(r)
	testUnary(t, r, []unaryCase{
		{pb.Lease_LeaseRevoke_FullMethodName, lease.Revoke, args{7}, &pb.LeaseRevokeRequest{ID: 7}},
		{pb.Lease_LeaseTimeToLive_FullMethodName, lease.TimeToLive, args{7}, &pb.LeaseTimeToLiveRequest{ID: 7}},
		{
			pb.Lease_LeaseTimeToLive_FullMethodName, lease.TimeToLive, args{7, WithAttachedKeys()},
			&pb.LeaseTimeToLiveRequest{ID: 7, Keys: true},
		},
		{pb.Lease_LeaseLeases_FullMethodName, lease.Leases, nil, &pb.LeaseLeasesRequest{}},
	})
	require.NoError(t, lease.Close())
	require.NoError(t, lease.Close())
}

func TestLeaseResponses(t *testing.T) {
	resp, err := leaseOver(replying(&pb.LeaseTimeToLiveResponse{
		Header: header(7), ID: 1, TTL: 2, GrantedTTL: 3, Keys: [][]byte{[]byte("k")},
	})).TimeToLive(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, int64(7), resp.Revision)
	require.Equal(t, LeaseID(1), resp.ID)
	require.Equal(t, int64(2), resp.TTL)
	require.Equal(t, int64(3), resp.GrantedTTL)
	require.Equal(t, [][]byte{[]byte("k")}, resp.Keys)

	list, err := leaseOver(replying(&pb.LeaseLeasesResponse{
		Header: header(7), Leases: []*pb.LeaseStatus{{ID: 1}, {ID: 2}},
	})).Leases(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(7), list.Revision)
	require.Equal(t, []LeaseStatus{{ID: 1}, {ID: 2}}, list.Leases)
}

func TestGrantChoosesTheID(t *testing.T) {
	r := &recorder{answer: func(c call) (proto.Message, error) {
		req := c.req.(*pb.LeaseGrantRequest)
		return &pb.LeaseGrantResponse{Header: header(7), ID: req.ID, TTL: req.TTL + 1, Error: "text"}, nil
	}}
	seen := map[LeaseID]bool{}
	for range 100 {
		resp, err := leaseOver(r).Grant(t.Context(), 30)
		require.NoError(t, err)
		require.Positive(t, resp.ID)
		require.False(t, seen[resp.ID], "every lease has an id of its own")
		seen[resp.ID] = true
		require.Equal(t, int64(31), resp.TTL, "the server's")
		require.Equal(t, int64(7), resp.Revision)
		require.Equal(t, "text", resp.Error)
	}
	require.Equal(t, int64(30), r.calls[0].req.(*pb.LeaseGrantRequest).TTL)
}

func TestGrantThatWasExecutedBefore(t *testing.T) {
	r := &recorder{answer: func(c call) (proto.Message, error) {
		if req, ok := c.req.(*pb.LeaseTimeToLiveRequest); ok {
			return &pb.LeaseTimeToLiveResponse{Header: header(7), ID: req.ID, TTL: 28, GrantedTTL: 30}, nil
		}
		return nil, rpctypes.ErrGRPCLeaseExist
	}}
	resp, err := leaseOver(r).Grant(t.Context(), 30)
	require.NoError(t, err)
	require.Len(t, r.calls, 2)
	granted := r.calls[0].req.(*pb.LeaseGrantRequest).ID
	requireProto(t, &pb.LeaseTimeToLiveRequest{ID: granted}, r.calls[1].req)
	require.Equal(t, LeaseID(granted), resp.ID)
	require.Equal(t, int64(30), resp.TTL)
	require.Equal(t, int64(7), resp.Revision)
}

func TestGrantWhoseLeaseHasExpired(t *testing.T) {
	var ids []int64
	r := &recorder{answer: func(c call) (proto.Message, error) {
		switch req := c.req.(type) {
		case *pb.LeaseTimeToLiveRequest:
			return &pb.LeaseTimeToLiveResponse{ID: req.ID, TTL: -1}, nil
		case *pb.LeaseGrantRequest:
			ids = append(ids, req.ID)
			if len(ids) == 1 {
				return nil, rpctypes.ErrGRPCLeaseExist
			}
			return &pb.LeaseGrantResponse{ID: req.ID, TTL: req.TTL}, nil
		}
		return nil, nil
	}}
	resp, err := leaseOver(r).Grant(t.Context(), 30)
	require.NoError(t, err)
	require.Len(t, ids, 2)
	require.NotEqual(t, ids[0], ids[1])
	require.Equal(t, LeaseID(ids[1]), resp.ID)
}

func TestGrantFailsAfterTooManyTakenIDs(t *testing.T) {
	r := &recorder{answer: func(c call) (proto.Message, error) {
		if _, ok := c.req.(*pb.LeaseTimeToLiveRequest); ok {
			return &pb.LeaseTimeToLiveResponse{TTL: -1}, nil
		}
		return nil, rpctypes.ErrGRPCLeaseExist
	}}
	_, err := leaseOver(r).Grant(t.Context(), 30)
	require.Equal(t, rpctypes.ErrLeaseExist, err)
	require.Len(t, r.calls, 6)
}

func TestGrantErrors(t *testing.T) {
	r := failing(rpctypes.ErrGRPCLeaseTTLTooLarge)
	resp, err := leaseOver(r).Grant(t.Context(), MaxLeaseTTL+1)
	require.Nil(t, resp)
	require.Equal(t, rpctypes.ErrLeaseTTLTooLarge, err)
	require.Len(t, r.calls, 1)

	r = &recorder{answer: func(c call) (proto.Message, error) {
		if _, ok := c.req.(*pb.LeaseTimeToLiveRequest); ok {
			return nil, rpctypes.ErrGRPCNoLeader
		}
		return nil, rpctypes.ErrGRPCLeaseExist
	}}
	_, err = leaseOver(r).Grant(t.Context(), 30)
	require.Equal(t, rpctypes.ErrNoLeader, err, "the lease was granted, but nothing is known of it: %v", err)
}

func TestRevokeOfAnUnknownLease(t *testing.T) {
	r := failing(rpctypes.ErrGRPCLeaseNotFound)
	resp, err := leaseOver(r).Revoke(t.Context(), 7)
	require.Nil(t, resp)
	require.Equal(t, rpctypes.ErrLeaseNotFound, err)
	require.Len(t, r.calls, 1)
}
