package fakeetcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func clusterService() map[string]service {
	all := map[string]service{
		"MemberAdd":     proposed(admins, memberAdd),
		"MemberRemove":  proposed(admins, memberRemove),
		"MemberUpdate":  proposed(admins, memberUpdate),
		"MemberList":    unary(users, memberList),
		"MemberPromote": proposed(admins, memberPromote),
	}
	for name, s := range all {
		s.noRevision = true
		all[name] = s
	}
	return all
}

func memberAdd(c *Call, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	m, members, err := c.cluster.membership.add(r)
	if err != nil {
		return nil, err
	}
	return &pb.MemberAddResponse{Header: &pb.ResponseHeader{}, Member: m, Members: members}, nil
}

func memberRemove(c *Call, r *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	members, err := c.cluster.membership.remove(r.ID)
	if err != nil {
		return nil, err
	}
	return &pb.MemberRemoveResponse{Header: &pb.ResponseHeader{}, Members: members}, nil
}

func memberUpdate(c *Call, r *pb.MemberUpdateRequest) (*pb.MemberUpdateResponse, error) {
	members, err := c.cluster.membership.update(r)
	if err != nil {
		return nil, err
	}
	return &pb.MemberUpdateResponse{Header: &pb.ResponseHeader{}, Members: members}, nil
}

func memberList(c *Call, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if r.Linearizable {
		if err := c.quorum(); err != nil {
			return nil, err
		}
	}
	return &pb.MemberListResponse{Header: &pb.ResponseHeader{}, Members: c.cluster.membership.list()}, nil
}

func memberPromote(c *Call, r *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	members, err := c.cluster.membership.promote(r.ID)
	if err != nil {
		return nil, err
	}
	return &pb.MemberPromoteResponse{Header: &pb.ResponseHeader{}, Members: members}, nil
}
