// Package auth is etcd's users, roles, tokens and permissions in memory.
//
// It answers the requests of the Auth service with the results and the errors
// of an etcd 3.7 server that hands out simple tokens. The caller checks
// permissions with Identify, RequireUser, RequireAdmin and Permit.
package auth

import (
	"fmt"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// root names both the user and the role that may do everything.
const root = "root"

type user struct {
	password   string
	noPassword bool
	roles      map[string]bool
}

// Store holds the users and roles. It is not safe for concurrent use.
type Store struct {
	enabled  bool
	revision uint64
	users    map[string]*user
	roles    map[string][]*authpb.Permission
	tokens   map[string]string // to user names
	issued   int
}

// New returns a store without users and roles, authentication disabled.
func New() *Store {
	return &Store{
		revision: 1,
		users:    make(map[string]*user),
		roles:    make(map[string][]*authpb.Permission),
		tokens:   make(map[string]string),
	}
}

// Enable answers an AuthEnableRequest.
func (s *Store) Enable(*pb.AuthEnableRequest) (*pb.AuthEnableResponse, error) {
	u := s.users[root]
	switch {
	case s.enabled:
	case u == nil:
		return nil, rpctypes.ErrGRPCRootUserNotExist
	case !u.roles[root]:
		return nil, rpctypes.ErrGRPCRootRoleNotExist
	}
	s.enabled = true
	return &pb.AuthEnableResponse{Header: &pb.ResponseHeader{}}, nil
}

// Disable answers an AuthDisableRequest. It ends every token.
func (s *Store) Disable(*pb.AuthDisableRequest) (*pb.AuthDisableResponse, error) {
	if s.enabled {
		s.enabled = false
		s.changed()
		clear(s.tokens)
	}
	return &pb.AuthDisableResponse{Header: &pb.ResponseHeader{}}, nil
}

// Status answers an AuthStatusRequest.
func (s *Store) Status(*pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	return &pb.AuthStatusResponse{
		Header: &pb.ResponseHeader{}, Enabled: s.enabled, AuthRevision: s.revision,
	}, nil
}

// Authenticate answers an AuthenticateRequest with a token.
func (s *Store) Authenticate(r *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	if !s.enabled {
		return nil, rpctypes.ErrGRPCAuthNotEnabled
	}
	u := s.users[r.Name]
	switch {
	case u == nil:
		return nil, rpctypes.ErrGRPCAuthFailed
	case u.noPassword:
		return nil, errNoPassword
	case u.password != r.Password:
		return nil, rpctypes.ErrGRPCAuthFailed
	}
	s.issued++
	token := fmt.Sprintf("token-of-%s.%d", r.Name, s.issued)
	s.tokens[token] = r.Name
	return &pb.AuthenticateResponse{Header: &pb.ResponseHeader{}, Token: token}, nil
}

// InvalidateTokens ends every token, as time or a restart of the server does.
func (s *Store) InvalidateTokens() { clear(s.tokens) }

func (s *Store) changed() { s.revision++ }
