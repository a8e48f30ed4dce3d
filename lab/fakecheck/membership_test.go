package fakecheck_test

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// TestMembership adds a learner, which does not count for the quorum and never starts, and does with it and with the
// only member what leaves that one serving.
func TestMembership(t *testing.T) {
	t.Parallel()
	const url = "http://learner.test:2380"
	etcd := realEtcd(t)
	settle(t, etcd)
	transcript := requireAlike(t, etcd, fakeEtcd(t), func(s *session) {
		for _, r := range s.call(&pb.MemberListRequest{}).Responses {
			self := r.(*pb.MemberListResponse).Members[0]
			s.call(&pb.MemberAddRequest{PeerURLs: self.PeerURLs, IsLearner: true})
			s.call(&pb.MemberPromoteRequest{ID: self.ID})
			s.call(&pb.MoveLeaderRequest{TargetID: self.ID})
		}
		for _, r := range s.call(&pb.MemberAddRequest{PeerURLs: []string{url}, IsLearner: true}).Responses {
			learner := r.(*pb.MemberAddResponse).Member.ID
			s.call(&pb.MemberListRequest{Linearizable: true})
			s.call(&pb.MemberPromoteRequest{ID: learner})
			s.call(&pb.MemberAddRequest{PeerURLs: []string{url, url + "3"}, IsLearner: true})
			s.call(&pb.MemberAddRequest{PeerURLs: []string{"http://other.test:2380"}, IsLearner: true})
			s.call(&pb.MoveLeaderRequest{TargetID: learner})
			s.call(&pb.MemberUpdateRequest{ID: learner, PeerURLs: []string{url + "0"}})
			s.call(&pb.MemberUpdateRequest{ID: learner, PeerURLs: []string{url + "1", url + "2"}})
			s.call(&pb.MemberRemoveRequest{ID: learner})
			s.call(&pb.MemberRemoveRequest{ID: learner})
			s.call(&pb.MemberUpdateRequest{ID: learner, PeerURLs: []string{url}})
			s.call(&pb.MemberPromoteRequest{ID: learner})
		}
		s.call(&pb.MemberListRequest{})
	})
	requireSeen(t, transcript, []string{
		pb.Cluster_MemberAdd_FullMethodName, pb.Cluster_MemberUpdate_FullMethodName,
		pb.Cluster_MemberRemove_FullMethodName, pb.Maintenance_MoveLeader_FullMethodName,
	}, []error{
		rpctypes.ErrGRPCPeerURLExist, rpctypes.ErrGRPCTooManyLearners, rpctypes.ErrGRPCMemberNotLearner,
		rpctypes.ErrGRPCMemberNotFound, rpctypes.ErrGRPCBadLeaderTransferee, rpctypes.ErrGRPCLearnerNotReady,
	})
}
