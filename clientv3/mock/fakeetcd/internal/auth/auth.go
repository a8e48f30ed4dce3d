// Package auth is etcd's users, roles, tokens and permissions in memory.
//
// It answers the requests of the Auth service with the results and the errors
// of an etcd 3.7 server that hands out simple tokens. The caller checks
// permissions with Identify, RequireUser, RequireAdmin and Permit.
package auth

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/internal/semantics"
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

// Identify returns the name of the user whose token md carries, "" if there is
// no token or authentication is disabled. An unknown token is an error.
func (s *Store) Identify(md metadata.MD) (string, error) {
	if !s.enabled {
		return "", nil
	}
	tokens := md.Get(rpctypes.TokenFieldNameGRPC)
	if len(tokens) == 0 {
		tokens = md.Get(rpctypes.TokenFieldNameSwagger)
	}
	if len(tokens) == 0 {
		return "", nil
	}
	name, ok := s.tokens[strings.TrimPrefix(tokens[0], "Bearer ")]
	if !ok {
		return "", rpctypes.ErrGRPCInvalidAuthToken
	}
	return name, nil
}

// RequireUser refuses a call without a user while authentication is enabled.
func (s *Store) RequireUser(name string) error {
	if s.enabled && name == "" {
		return rpctypes.ErrGRPCUserEmpty
	}
	return nil
}

// RequireAdmin refuses a call of a user without the root role while
// authentication is enabled.
func (s *Store) RequireAdmin(name string) error {
	if err := s.RequireUser(name); err != nil || !s.enabled {
		return err
	}
	if !s.users[name].roles[root] {
		return rpctypes.ErrGRPCPermissionDenied
	}
	return nil
}

// Permit refuses the user to read, or to write, the keys that a key and a
// range_end name, while authentication is enabled.
func (s *Store) Permit(name string, want authpb.Permission_Type, key, rangeEnd []byte) error {
	if err := s.RequireUser(name); err != nil || !s.enabled {
		return err
	}
	u := s.users[name]
	if u.roles[root] {
		return nil
	}
	var granted []semantics.Range
	for role := range u.roles {
		for _, p := range s.roles[role] {
			if p.PermType == want || p.PermType == authpb.Permission_READWRITE {
				granted = append(granted, semantics.Of(p.Key, p.RangeEnd))
			}
		}
	}
	if !semantics.Of(key, rangeEnd).CoveredBy(granted) {
		return rpctypes.ErrGRPCPermissionDenied
	}
	return nil
}

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
// the role has gets the new type, unless another one with its key was granted
// before: then it is added again.
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
	i := slices.IndexFunc(perms, func(p *authpb.Permission) bool { return bytes.Equal(p.Key, r.Perm.Key) })
	if i < 0 || !bytes.Equal(perms[i].RangeEnd, r.Perm.RangeEnd) { // etcd looks at the first range of the key only
		i, perms = len(perms), append(perms, nil)
	}
	perms[i], s.roles[r.Name] = proto.CloneOf(r.Perm), perms
	s.changed()
	return &pb.AuthRoleGrantPermissionResponse{Header: &pb.ResponseHeader{}}, nil
}
