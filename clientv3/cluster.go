package clientv3

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"google.golang.org/grpc"
)

// Member is a member of the cluster.
type Member pb.Member

// MemberListResponse is the response to [Cluster.MemberList].
type MemberListResponse pb.MemberListResponse

// MemberAddResponse is the response to [Cluster.MemberAdd] and
// [Cluster.MemberAddAsLearner].
type MemberAddResponse pb.MemberAddResponse

// MemberRemoveResponse is the response to [Cluster.MemberRemove].
type MemberRemoveResponse pb.MemberRemoveResponse

// MemberUpdateResponse is the response to [Cluster.MemberUpdate].
type MemberUpdateResponse pb.MemberUpdateResponse

// MemberPromoteResponse is the response to [Cluster.MemberPromote].
type MemberPromoteResponse pb.MemberPromoteResponse

// Cluster reads and changes the membership of the cluster. MemberList is repeated
// after a fault; changes reach a server at most once and give a
// *retry.UnknownOutcomeError when their outcome is unknown.
//
// Peer addresses are URLs of the form http://host:port or https://host:port, without
// a path. Others are refused before anything is sent.
type Cluster interface {
	// MemberList lists the members. With [WithSerializable] the member that gets
	// the request answers from its own state, which needs no leader.
	MemberList(ctx context.Context, opts ...OpOption) (*MemberListResponse, error)

	// MemberAdd adds a voting member with the given peer addresses.
	MemberAdd(ctx context.Context, peerAddrs []string) (*MemberAddResponse, error)

	// MemberAddAsLearner adds a member that receives the log but has no vote.
	MemberAddAsLearner(ctx context.Context, peerAddrs []string) (*MemberAddResponse, error)

	// MemberRemove removes the member with the given id.
	MemberRemove(ctx context.Context, id uint64) (*MemberRemoveResponse, error)

	// MemberUpdate replaces the peer addresses of the member with the given id.
	MemberUpdate(ctx context.Context, id uint64, peerAddrs []string) (*MemberUpdateResponse, error)

	// MemberPromote gives the learner with the given id a vote. A learner that lags
	// behind the leader is refused with rpctypes.ErrMemberLearnerNotReady.
	MemberPromote(ctx context.Context, id uint64) (*MemberPromoteResponse, error)
}

type cluster struct {
	remote   pb.ClusterClient
	callOpts []grpc.CallOption
}

// NewCluster returns the Cluster service of a client.
func NewCluster(c *Client) Cluster {
	return NewClusterFromClusterClient(RetryClusterClient(c), c)
}

// NewClusterFromClusterClient returns the Cluster service over remote, with the
// call options of c. c may be nil.
func NewClusterFromClusterClient(remote pb.ClusterClient, c *Client) Cluster {
	return &cluster{remote: remote, callOpts: orNone(c).callOpts}
}

func (c *cluster) MemberList(ctx context.Context, opts ...OpOption) (*MemberListResponse, error) {
	op := OpGet("", opts...)
	req := &pb.MemberListRequest{Linearizable: !op.serializable}
	resp, err := invoke(ctx, c.remote.MemberList, req, c.callOpts)
	return (*MemberListResponse)(resp), err
}

func (c *cluster) MemberAdd(ctx context.Context, peerAddrs []string) (*MemberAddResponse, error) {
	return c.add(ctx, &pb.MemberAddRequest{PeerURLs: peerAddrs})
}

func (c *cluster) MemberAddAsLearner(ctx context.Context, peerAddrs []string) (*MemberAddResponse, error) {
	return c.add(ctx, &pb.MemberAddRequest{PeerURLs: peerAddrs, IsLearner: true})
}

func (c *cluster) add(ctx context.Context, req *pb.MemberAddRequest) (*MemberAddResponse, error) {
	if err := checkPeerURLs(req.PeerURLs); err != nil {
		return nil, err
	}
	resp, err := invoke(ctx, c.remote.MemberAdd, req, c.callOpts)
	return (*MemberAddResponse)(resp), err
}

func (c *cluster) MemberRemove(ctx context.Context, id uint64) (*MemberRemoveResponse, error) {
	resp, err := invoke(ctx, c.remote.MemberRemove, &pb.MemberRemoveRequest{ID: id}, c.callOpts)
	return (*MemberRemoveResponse)(resp), err
}

func (c *cluster) MemberUpdate(ctx context.Context, id uint64, peerAddrs []string) (*MemberUpdateResponse, error) {
	if err := checkPeerURLs(peerAddrs); err != nil {
		return nil, err
	}
	req := &pb.MemberUpdateRequest{ID: id, PeerURLs: peerAddrs}
	resp, err := invoke(ctx, c.remote.MemberUpdate, req, c.callOpts)
	return (*MemberUpdateResponse)(resp), err
}

func (c *cluster) MemberPromote(ctx context.Context, id uint64) (*MemberPromoteResponse, error) {
	resp, err := invoke(ctx, c.remote.MemberPromote, &pb.MemberPromoteRequest{ID: id}, c.callOpts)
	return (*MemberPromoteResponse)(resp), err
}

// checkPeerURLs rejects URLs that would crash a server when it applies the change.
func checkPeerURLs(urls []string) error {
	_, err := types.NewURLs(urls)
	return err
}
