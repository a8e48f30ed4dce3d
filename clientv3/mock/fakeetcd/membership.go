package fakeetcd

import (
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// membership holds the cluster's members and leader. Cluster.mu guards it.
type membership struct {
	members []*pb.Member
	leader  uint64 // 0 if there is none
	term    uint64
	lost    chan struct{} // closed when the leader is lost, replaced by the next leader
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
