package auth

import (
	"maps"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errNoPassword is what etcd answers to a user without a password who tries to
// authenticate with one: an error that it does not translate for the wire.
var errNoPassword = status.Error(codes.Unknown, "auth: authentication failed, password was given for no password user")

// errLongPassword is that of bcrypt, which hashes the password before the request is proposed.
var errLongPassword = status.Error(codes.Unknown, "bcrypt: password length exceeds 72 bytes")

// maxPassword is bcrypt's.
const maxPassword = 72

// UserAdd answers an AuthUserAddRequest.
func (s *Store) UserAdd(r *pb.AuthUserAddRequest) (*pb.AuthUserAddResponse, error) {
	if len(r.Password) > maxPassword {
		return nil, errLongPassword
	}
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

// UserGet answers an AuthUserGetRequest.
func (s *Store) UserGet(r *pb.AuthUserGetRequest) (*pb.AuthUserGetResponse, error) {
	u := s.users[r.Name]
	if u == nil {
		return nil, rpctypes.ErrGRPCUserNotFound
	}
	return &pb.AuthUserGetResponse{Header: &pb.ResponseHeader{}, Roles: sortedKeys(u.roles)}, nil
}

// UserList answers an AuthUserListRequest.
func (s *Store) UserList(*pb.AuthUserListRequest) (*pb.AuthUserListResponse, error) {
	return &pb.AuthUserListResponse{Header: &pb.ResponseHeader{}, Users: sortedKeys(s.users)}, nil
}

// UserDelete answers an AuthUserDeleteRequest. It ends the user's tokens.
func (s *Store) UserDelete(r *pb.AuthUserDeleteRequest) (*pb.AuthUserDeleteResponse, error) {
	if s.enabled && r.Name == root {
		return nil, rpctypes.ErrGRPCInvalidAuthMgmt
	}
	if s.users[r.Name] == nil {
		return nil, rpctypes.ErrGRPCUserNotFound
	}
	delete(s.users, r.Name)
	s.invalidateUser(r.Name)
	s.changed()
	return &pb.AuthUserDeleteResponse{Header: &pb.ResponseHeader{}}, nil
}

// UserChangePassword answers an AuthUserChangePasswordRequest. It ends the
// user's tokens.
func (s *Store) UserChangePassword(r *pb.AuthUserChangePasswordRequest) (*pb.AuthUserChangePasswordResponse, error) {
	if len(r.Password) > maxPassword {
		return nil, errLongPassword
	}
	u := s.users[r.Name]
	if u == nil {
		return nil, rpctypes.ErrGRPCUserNotFound
	}
	if !u.noPassword {
		u.password = r.Password
	}
	s.invalidateUser(r.Name)
	s.changed()
	return &pb.AuthUserChangePasswordResponse{Header: &pb.ResponseHeader{}}, nil
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

// UserRevokeRole answers an AuthUserRevokeRoleRequest.
func (s *Store) UserRevokeRole(r *pb.AuthUserRevokeRoleRequest) (*pb.AuthUserRevokeRoleResponse, error) {
	if s.enabled && r.Name == root && r.Role == root {
		return nil, rpctypes.ErrGRPCInvalidAuthMgmt
	}
	u := s.users[r.Name]
	if u == nil {
		return nil, rpctypes.ErrGRPCUserNotFound
	}
	if !u.roles[r.Role] {
		return nil, rpctypes.ErrGRPCRoleNotGranted
	}
	maps.DeleteFunc(u.roles, func(role string, _ bool) bool { return role == r.Role })
	s.changed()
	return &pb.AuthUserRevokeRoleResponse{Header: &pb.ResponseHeader{}}, nil
}
