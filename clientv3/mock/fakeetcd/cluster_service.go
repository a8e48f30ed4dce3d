package fakeetcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

var clusterService = map[string]service{
	"MemberAdd":     membershipMethod((*membership).add),
	"MemberRemove":  membershipMethod((*membership).remove),
	"MemberUpdate":  membershipMethod((*membership).update),
	"MemberList":    unary(users, memberList),
	"MemberPromote": membershipMethod((*membership).promote),
}

// membershipMethod makes a service from a change of the members.
func membershipMethod[Q, R proto.Message](f func(*membership, Q) (R, error)) service {
	return proposed(admins, func(c *Call, req Q) (R, error) { return f(c.cluster.membership, req) })
}

func memberList(c *Call, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if r.Linearizable {
		if err := c.quorum(); err != nil {
			return nil, err
		}
	}
	return &pb.MemberListResponse{Header: &pb.ResponseHeader{}, Members: c.cluster.membership.list()}, nil
}
