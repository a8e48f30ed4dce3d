package fakeetcd

import (
	"fmt"
	"net"
	"net/url"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"
)

// membership holds the cluster's members, leader and alarms. Cluster.mu guards it.
type membership struct {
	members []*pb.Member
	added   uint64
	leader  uint64 // 0 if there is none
	term    uint64
	lost    chan struct{} // closed when the leader is lost, replaced by the next leader
	alarms  []*pb.AlarmMember
}

// firstTerm is the raft term of a new cluster: the first election of a real
// one is usually won in term 2.
const firstTerm = 2

func newMembership(members []*Member) *membership {
	ms := &membership{leader: members[0].id, term: firstTerm, lost: make(chan struct{})}
	for i, m := range members {
		ms.members = append(ms.members, &pb.Member{
			ID:         m.id,
			Name:       m.name,
			PeerURLs:   []string{fmt.Sprintf("http://member-%d.fakeetcd:2380", i)},
			ClientURLs: []string{m.Endpoint()},
		})
	}
	return ms
}

func (ms *membership) setLeader(id uint64) {
	switch {
	case id == 0 && ms.leader != 0:
		close(ms.lost)
	case id != 0 && ms.leader == 0:
		ms.lost = make(chan struct{})
	}
	ms.leader = id
	ms.term++
}

func (ms *membership) hasLeader() bool { return ms.leader != 0 }

// leaderLost returns a channel that is closed when the leader is lost, nil for a
// stream that does not require a leader.
func (c *Call) leaderLost() <-chan struct{} {
	if !c.requiresLeader() {
		return nil
	}
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	return c.cluster.membership.lost
}

// find returns a member, nil if there is none with the ID.
func (ms *membership) find(id uint64) *pb.Member {
	for _, m := range ms.members {
		if m.ID == id {
			return m
		}
	}
	return nil
}

func (ms *membership) isLearner(id uint64) bool { return ms.find(id).GetIsLearner() }

func (ms *membership) list() []*pb.Member {
	out := make([]*pb.Member, len(ms.members))
	for i, m := range ms.members {
		out[i] = proto.CloneOf(m)
	}
	return out
}

// add adds a member that has not started: without a name and client URLs.
func (ms *membership) add(r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	for _, m := range ms.members {
		if slices.ContainsFunc(r.PeerURLs, func(u string) bool { return slices.Contains(m.PeerURLs, u) }) {
			return nil, rpctypes.ErrGRPCPeerURLExist
		}
		if r.IsLearner && m.IsLearner {
			// etcd's default of --max-learners is 1.
			return nil, rpctypes.ErrGRPCTooManyLearners
		}
	}
	ms.added++
	m := &pb.Member{ID: ClusterID<<16 | (maxMembers + ms.added), PeerURLs: r.PeerURLs, IsLearner: r.IsLearner}
	ms.members = append(ms.members, m)
	return &pb.MemberAddResponse{Header: &pb.ResponseHeader{}, Member: proto.CloneOf(m), Members: ms.list()}, nil
}

func checkPeerURLs(urls []string) error {
	if len(urls) == 0 {
		return rpctypes.ErrGRPCMemberBadURLs
	}
	for _, s := range urls {
		u, err := url.Parse(s)
		if err != nil || u.Path != "" {
			return rpctypes.ErrGRPCMemberBadURLs
		}
		if _, _, err := net.SplitHostPort(u.Host); err != nil {
			return rpctypes.ErrGRPCMemberBadURLs
		}
	}
	return nil
}

func (ms *membership) remove(r *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	if ms.find(r.ID) == nil {
		return nil, rpctypes.ErrGRPCMemberNotFound
	}
	if !slices.ContainsFunc(ms.members, func(m *pb.Member) bool { return m.ID != r.ID && !m.IsLearner }) {
		return nil, rpctypes.ErrGRPCMemberNotEnoughStarted // the last voter
	}
	ms.members = slices.DeleteFunc(ms.members, func(m *pb.Member) bool { return m.ID == r.ID })
	return &pb.MemberRemoveResponse{Header: &pb.ResponseHeader{}, Members: ms.list()}, nil
}

func (ms *membership) update(r *pb.MemberUpdateRequest) (*pb.MemberUpdateResponse, error) {
	m := ms.find(r.ID)
	if m == nil {
		return nil, rpctypes.ErrGRPCMemberNotFound
	}
	m.PeerURLs = r.PeerURLs
	return &pb.MemberUpdateResponse{Header: &pb.ResponseHeader{}, Members: ms.list()}, nil
}

func (ms *membership) promote(r *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	m := ms.find(r.ID)
	switch {
	case m == nil:
		return nil, rpctypes.ErrGRPCMemberNotFound
	case !m.IsLearner:
		return nil, rpctypes.ErrGRPCMemberNotLearner
	case m.Name == "": // not started, so not caught up
		return nil, rpctypes.ErrGRPCLearnerNotReady
	}
	m.IsLearner = false
	return &pb.MemberPromoteResponse{Header: &pb.ResponseHeader{}, Members: ms.list()}, nil
}

// moveLeader transfers leadership from one member to another.
func (ms *membership) moveLeader(from, to uint64) error {
	if ms.leader != from {
		return rpctypes.ErrGRPCNotLeader
	}
	if target := ms.find(to); target == nil || target.IsLearner {
		return rpctypes.ErrGRPCBadLeaderTransferee
	}
	ms.setLeader(to)
	return nil
}
