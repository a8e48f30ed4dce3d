package auth

import (
	"bytes"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/internal/semantics"
)

// RoleAdd answers an AuthRoleAddRequest.
func (s *Store) RoleAdd(r *pb.AuthRoleAddRequest) (*pb.AuthRoleAddResponse, error) {
	if r.Name == "" {
		return nil, rpctypes.ErrGRPCRoleEmpty
	}
	if _, ok := s.roles[r.Name]; ok {
		return nil, rpctypes.ErrGRPCRoleAlreadyExist
	}
	s.roles[r.Name] = nil
	s.changed()
	return &pb.AuthRoleAddResponse{Header: &pb.ResponseHeader{}}, nil
}

// RoleGrantPermission answers an AuthRoleGrantPermissionRequest. A range that
// the role has already gets the new type.
func (s *Store) RoleGrantPermission(r *pb.AuthRoleGrantPermissionRequest) (*pb.AuthRoleGrantPermissionResponse, error) {
	if r.Perm == nil {
		return nil, rpctypes.ErrGRPCPermissionNotGiven
	}
	if len(r.Perm.Key) == 0 || semantics.Of(r.Perm.Key, r.Perm.RangeEnd).Empty() {
		return nil, rpctypes.ErrGRPCInvalidAuthMgmt
	}
	perms, ok := s.roles[r.Name]
	if !ok {
		return nil, rpctypes.ErrGRPCRoleNotFound
	}
	perms = slices.DeleteFunc(perms, func(p *authpb.Permission) bool {
		return bytes.Equal(p.Key, r.Perm.Key) && bytes.Equal(p.RangeEnd, r.Perm.RangeEnd)
	})
	s.roles[r.Name] = append(perms, proto.CloneOf(r.Perm))
	s.changed()
	return &pb.AuthRoleGrantPermissionResponse{Header: &pb.ResponseHeader{}}, nil
}
