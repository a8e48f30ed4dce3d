package auth

import (
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errNoPassword is what etcd answers to a user without a password who tries to
// authenticate with one: an error that it does not translate for the wire.
var errNoPassword = status.Error(codes.Unknown, "auth: authentication failed, password was given for no password user")

// UserAdd answers an AuthUserAddRequest.
func (s *Store) UserAdd(r *pb.AuthUserAddRequest) (*pb.AuthUserAddResponse, error) {
	if r.Name == "" {
		return nil, rpctypes.ErrGRPCUserEmpty
	}
	if s.users[r.Name] != nil {
		return nil, rpctypes.ErrGRPCUserAlreadyExist
	}
	s.users[r.Name] = &user{
		password: r.Password, noPassword: r.GetOptions().GetNoPassword(), roles: make(map[string]bool),
	}
	s.changed()
	return &pb.AuthUserAddResponse{Header: &pb.ResponseHeader{}}, nil
}

// UserList answers an AuthUserListRequest.
func (s *Store) UserList(*pb.AuthUserListRequest) (*pb.AuthUserListResponse, error) {
	return &pb.AuthUserListResponse{Header: &pb.ResponseHeader{}, Users: slices.Sorted(maps.Keys(s.users))}, nil
}

// UserGrantRole answers an AuthUserGrantRoleRequest.
func (s *Store) UserGrantRole(r *pb.AuthUserGrantRoleRequest) (*pb.AuthUserGrantRoleResponse, error) {
	u := s.users[r.User]
	if u == nil {
		return nil, rpctypes.ErrGRPCUserNotFound
	}
	if _, ok := s.roles[r.Role]; !ok && r.Role != root {
		return nil, rpctypes.ErrGRPCRoleNotFound
	}
	if !u.roles[r.Role] {
		u.roles[r.Role] = true
		s.changed()
	}
	return &pb.AuthUserGrantRoleResponse{Header: &pb.ResponseHeader{}}, nil
}
