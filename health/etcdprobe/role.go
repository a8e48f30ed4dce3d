package etcdprobe

import (
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/health"
)

// Role is a member's report about itself: the Info of a [health.Status].
type Role struct {
	// ID is the member's ID. Leader is the ID of the leader that it knows, 0 for none.
	ID, Leader uint64
	// Term is the raft term.
	Term uint64
	// Applied is the raft index that the member has applied.
	Applied uint64
	// Learner is set if the member has no vote.
	Learner bool
	// Version is the server's version, "" if unknown.
	Version string
	// Alarms are the names of the active alarms, such as "NOSPACE", each once.
	Alarms []string
}

// IsLeader reports whether the member is the leader.
func (r Role) IsLeader() bool { return r.Leader != 0 && r.Leader == r.ID }

// RoleOf returns an endpoint's latest reported role; the zero Role if there is none.
func RoleOf(s *health.Status) Role {
	role, _ := s.Info.(Role)
	return role
}

func roleOf(s *pb.StatusResponse) Role {
	return Role{
		ID:      s.GetHeader().GetMemberId(),
		Leader:  s.GetLeader(),
		Term:    s.GetRaftTerm(),
		Applied: s.GetRaftAppliedIndex(),
		Learner: s.GetIsLearner(),
		Version: s.GetVersion(),
		Alarms:  alarms(s.GetErrors()),
	}
}

// alarms returns the names of the alarms among the errors of a status, sorted, where each
// is a message in text form, such as "memberID:1 alarm:NOSPACE". Every member lists the
// alarms of all, so a name can occur more than once.
func alarms(errs []string) []string {
	var names []string
	for _, e := range errs {
		for field := range strings.FieldsSeq(e) {
			if name, ok := strings.CutPrefix(field, "alarm:"); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
