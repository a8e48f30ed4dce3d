package fakeetcd

import pb "go.etcd.io/etcd/api/v3/etcdserverpb"

var clusterService = map[string]service{"MemberList": unary(users, memberList)}

func memberList(c *Call, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if r.Linearizable {
		if err := c.quorum(); err != nil {
			return nil, err
		}
	}
	return &pb.MemberListResponse{Header: &pb.ResponseHeader{}, Members: c.cluster.membership.list()}, nil
}
