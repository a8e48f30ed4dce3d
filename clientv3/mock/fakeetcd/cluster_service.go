package fakeetcd

import (
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

var clusterService = map[string]service{"MemberList": unary(users, memberList)}

func memberList(c *Call, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if r.Linearizable {
		if err := c.quorum(); err != nil {
			return nil, err
		}
	}
	resp := &pb.MemberListResponse{Header: &pb.ResponseHeader{}}
	for i, m := range c.cluster.members {
		peer := fmt.Sprintf("http://member-%d.fakeetcd:2380", i)
		resp.Members = append(resp.Members, &pb.Member{ID: m.id, Name: m.name, PeerURLs: []string{peer}, ClientURLs: []string{m.Endpoint()}})
	}
	return resp, nil
}
