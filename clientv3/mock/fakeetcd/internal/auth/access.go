package auth

import (
	"strings"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/clientv3/internal/semantics"
)

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
