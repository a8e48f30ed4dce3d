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

func TestGrantChoosesTheID(t *testing.T) {
	r := &recorder{answer: func(sent proto.Message) (proto.Message, error) {
		req := sent.(*pb.LeaseGrantRequest)
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
	require.Equal(t, int64(30), r.calls[0].(*pb.LeaseGrantRequest).TTL)
}

// The server says that the chosen id exists: the answer to an earlier request was lost, or the lease is another client's.
func TestGrantOfAnIDThatExists(t *testing.T) {
	for name, tt := range map[string]struct {
		taken int                         // how many ids exist
		lease *pb.LeaseTimeToLiveResponse // with that id; nil if it cannot be read
		want  error
		calls int
	}{
		"it is this client's":    {1, &pb.LeaseTimeToLiveResponse{Header: header(7), TTL: 28, GrantedTTL: 30}, nil, 2},
		"it has expired since":   {1, &pb.LeaseTimeToLiveResponse{TTL: -1}, nil, 3},
		"too many ids exist":     {9, &pb.LeaseTimeToLiveResponse{TTL: -1}, rpctypes.ErrLeaseExist, 6},
		"nothing is known of it": {1, nil, rpctypes.ErrNoLeader, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var ids []int64
			r := &recorder{answer: func(sent proto.Message) (proto.Message, error) {
				req, ok := sent.(*pb.LeaseGrantRequest)
				switch {
				case !ok && tt.lease == nil:
					return nil, rpctypes.ErrGRPCNoLeader
				case !ok:
					requireProto(t, &pb.LeaseTimeToLiveRequest{ID: ids[len(ids)-1]}, sent)
					return tt.lease, nil
				}
				require.NotContains(t, ids, req.ID)
				if ids = append(ids, req.ID); len(ids) <= tt.taken {
					return nil, rpctypes.ErrGRPCLeaseExist
				}
				return &pb.LeaseGrantResponse{Header: header(7), ID: req.ID, TTL: req.TTL}, nil
			}}
			resp, err := leaseOver(r).Grant(t.Context(), 30)
			require.Equal(t, tt.want, err)
			require.Len(t, r.calls, tt.calls)
			if err == nil {
				require.Equal(t, LeaseID(ids[len(ids)-1]), resp.ID)
				require.Equal(t, int64(30), resp.TTL)
				require.Equal(t, int64(7), resp.Revision)
			}
		})
	}
}
