package auth

import (
	"bytes"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/keyrange"
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

// RoleGet answers an AuthRoleGetRequest.
func (s *Store) RoleGet(r *pb.AuthRoleGetRequest) (*pb.AuthRoleGetResponse, error) {
	perms, ok := s.roles[r.Role]
	if !ok {
		return nil, rpctypes.ErrGRPCRoleNotFound
	}
	if r.Role == root {
		perms = []*authpb.Permission{{PermType: authpb.Permission_READWRITE, Key: []byte{}, RangeEnd: []byte{0}}}
	}
	resp := &pb.AuthRoleGetResponse{Header: &pb.ResponseHeader{}}
	for _, p := range perms {
		resp.Perm = append(resp.Perm, proto.CloneOf(p))
	}
	return resp, nil
}

// RoleList answers an AuthRoleListRequest.
func (s *Store) RoleList(*pb.AuthRoleListRequest) (*pb.AuthRoleListResponse, error) {
	return &pb.AuthRoleListResponse{Header: &pb.ResponseHeader{}, Roles: sortedKeys(s.roles)}, nil
}

// RoleDelete answers an AuthRoleDeleteRequest. Users that had the role lose it.
func (s *Store) RoleDelete(r *pb.AuthRoleDeleteRequest) (*pb.AuthRoleDeleteResponse, error) {
	if s.enabled && r.Role == root {
		return nil, rpctypes.ErrGRPCInvalidAuthMgmt
	}
	if _, ok := s.roles[r.Role]; !ok {
		return nil, rpctypes.ErrGRPCRoleNotFound
	}
	delete(s.roles, r.Role)
	for _, u := range s.users {
		delete(u.roles, r.Role)
	}
	s.changed()
	return &pb.AuthRoleDeleteResponse{Header: &pb.ResponseHeader{}}, nil
}

// RoleGrantPermission answers an AuthRoleGrantPermissionRequest. A range that
// the role has already gets the new type.
func (s *Store) RoleGrantPermission(r *pb.AuthRoleGrantPermissionRequest) (*pb.AuthRoleGrantPermissionResponse, error) {
	if r.Perm == nil {
		return nil, rpctypes.ErrGRPCPermissionNotGiven
	}
	if len(r.Perm.Key) == 0 || keyrange.Of(r.Perm.Key, r.Perm.RangeEnd).Empty() {
		return nil, rpctypes.ErrGRPCInvalidAuthMgmt
	}
	perms, ok := s.roles[r.Name]
	if !ok {
		return nil, rpctypes.ErrGRPCRoleNotFound
	}
	perms = slices.DeleteFunc(slices.Clone(perms), sameRange(r.Perm.Key, r.Perm.RangeEnd))
	perms = append(perms, proto.CloneOf(r.Perm))
	slices.SortStableFunc(perms, func(a, b *authpb.Permission) int { return bytes.Compare(a.Key, b.Key) })
	s.roles[r.Name] = perms
	s.changed()
	return &pb.AuthRoleGrantPermissionResponse{Header: &pb.ResponseHeader{}}, nil
}

// RoleRevokePermission answers an AuthRoleRevokePermissionRequest.
func (s *Store) RoleRevokePermission(r *pb.AuthRoleRevokePermissionRequest) (*pb.AuthRoleRevokePermissionResponse, error) {
	perms, ok := s.roles[r.Role]
	if !ok {
		return nil, rpctypes.ErrGRPCRoleNotFound
	}
	kept := slices.DeleteFunc(slices.Clone(perms), sameRange(r.Key, r.RangeEnd))
	if len(kept) == len(perms) {
		return nil, rpctypes.ErrGRPCPermissionNotGranted
	}
	s.roles[r.Role] = kept
	s.changed()
	return &pb.AuthRoleRevokePermissionResponse{Header: &pb.ResponseHeader{}}, nil
}

func sameRange(key, rangeEnd []byte) func(*authpb.Permission) bool {
	return func(p *authpb.Permission) bool {
		return bytes.Equal(p.Key, key) && bytes.Equal(p.RangeEnd, rangeEnd)
	}
}
