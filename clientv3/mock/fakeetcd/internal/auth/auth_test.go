package auth

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"
)

// enabled returns a store with authentication enabled and two users: root, and alice, whose role "reader" may read from
// "a" to "c" and write "b".
func enabled(t *testing.T) *Store {
	t.Helper()
	s := New()
	do := func(err error) { t.Helper(); require.NoError(t, err) }
	for _, name := range []string{root, "alice"} {
		_, err := s.UserAdd(&pb.AuthUserAddRequest{Name: name, Password: name + "-pw"})
		do(err)
	}
	_, err := s.UserGrantRole(&pb.AuthUserGrantRoleRequest{User: root, Role: root})
	do(err)
	_, err = s.RoleAdd(&pb.AuthRoleAddRequest{Name: "reader"})
	do(err)
	for _, p := range []*authpb.Permission{
		{PermType: authpb.Permission_READ, Key: []byte("a"), RangeEnd: []byte("c")},
		{PermType: authpb.Permission_READWRITE, Key: []byte("b")},
	} {
		_, err = s.RoleGrantPermission(&pb.AuthRoleGrantPermissionRequest{Name: "reader", Perm: p})
		do(err)
	}
	_, err = s.UserGrantRole(&pb.AuthUserGrantRoleRequest{User: "alice", Role: "reader"})
	do(err)
	_, err = s.Enable(nil)
	do(err)
	return s
}

func login(t *testing.T, s *Store, name string) metadata.MD {
	t.Helper()
	resp, err := s.Authenticate(&pb.AuthenticateRequest{Name: name, Password: name + "-pw"})
	require.NoError(t, err)
	return metadata.Pairs("token", resp.Token)
}

func TestEnableNeedsRoot(t *testing.T) {
	s := New()
	_, err := s.Enable(nil)
	assert.Equal(t, rpctypes.ErrGRPCRootUserNotExist, err)
	_, err = s.UserAdd(&pb.AuthUserAddRequest{Name: root})
	require.NoError(t, err)
	_, err = s.Enable(nil)
	assert.Equal(t, rpctypes.ErrGRPCRootRoleNotExist, err)
	_, err = s.Authenticate(&pb.AuthenticateRequest{Name: root})
	assert.Equal(t, rpctypes.ErrGRPCAuthNotEnabled, err)
}

func TestAuthenticate(t *testing.T) {
	s := enabled(t)
	_, err := s.UserAdd(&pb.AuthUserAddRequest{Name: "cert", Options: &authpb.UserAddOptions{NoPassword: true}})
	require.NoError(t, err)
	for _, r := range []*pb.AuthenticateRequest{{Name: "alice", Password: "wrong"}, {Name: "nobody"}} {
		_, err := s.Authenticate(r)
		assert.Equal(t, rpctypes.ErrGRPCAuthFailed, err, r.Name)
	}
	_, err = s.Authenticate(&pb.AuthenticateRequest{Name: "cert"})
	assert.Equal(t, errNoPassword, err)

	first, second := login(t, s, "alice"), login(t, s, "alice")
	assert.NotEqual(t, first, second, "each login returns a new token")
	for _, md := range []metadata.MD{first, second} {
		name, err := s.Identify(md)
		require.NoError(t, err)
		assert.Equal(t, "alice", name)
	}
}

func TestTokensEnd(t *testing.T) {
	for name, end := range map[string]func(s *Store) error{
		"invalidated": func(s *Store) error { s.InvalidateTokens(); return nil },
		"user deleted": func(s *Store) error {
			_, err := s.UserDelete(&pb.AuthUserDeleteRequest{Name: "alice"})
			return err
		},
		"password changed": func(s *Store) error {
			_, err := s.UserChangePassword(&pb.AuthUserChangePasswordRequest{Name: "alice", Password: "new"})
			return err
		},
		"disabled and enabled": func(s *Store) error {
			if _, err := s.Disable(nil); err != nil {
				return err
			}
			_, err := s.Enable(nil)
			return err
		},
	} {
		s := enabled(t)
		md := login(t, s, "alice")
		require.NoError(t, end(s), name)
		_, err := s.Identify(md)
		assert.Equal(t, rpctypes.ErrGRPCInvalidAuthToken, err, name)
	}
}

func TestIdentify(t *testing.T) {
	s := enabled(t)
	name, err := s.Identify(nil)
	require.NoError(t, err)
	assert.Empty(t, name)
	bearer := metadata.Pairs("authorization", "Bearer "+login(t, s, root).Get("token")[0])
	name, err = s.Identify(bearer)
	require.NoError(t, err)
	assert.Equal(t, root, name)
	_, err = s.Disable(nil)
	require.NoError(t, err)
	name, err = s.Identify(metadata.Pairs("token", "stale"))
	require.NoError(t, err, "tokens are ignored while authentication is disabled")
	assert.Empty(t, name)
}

func TestPermit(t *testing.T) {
	s := enabled(t)
	read, write := authpb.Permission_READ, authpb.Permission_WRITE
	tests := []struct {
		user     string
		want     authpb.Permission_Type
		key, end string
		err      error
	}{
		{"alice", read, "a", "", nil},
		{"alice", read, "a", "c", nil},
		{"alice", read, "a", "d", rpctypes.ErrGRPCPermissionDenied},
		{"alice", read, "a", "\x00", rpctypes.ErrGRPCPermissionDenied},
		{"alice", write, "b", "", nil},
		{"alice", write, "a", "", rpctypes.ErrGRPCPermissionDenied},
		{root, write, "z", "\x00", nil},
		{"", read, "a", "", rpctypes.ErrGRPCUserEmpty},
		{"nobody", read, "a", "", rpctypes.ErrGRPCPermissionDenied},
	}
	for _, tt := range tests {
		err := s.Permit(tt.user, tt.want, []byte(tt.key), []byte(tt.end))
		assert.Equal(t, tt.err, err, "%+v", tt)
	}
	require.NoError(t, New().Permit("", write, []byte("k"), nil), "everything is permitted without authentication")
}

func TestRequire(t *testing.T) {
	s := enabled(t)
	require.NoError(t, s.RequireUser("alice"))
	assert.Equal(t, rpctypes.ErrGRPCUserEmpty, s.RequireUser(""))
	require.NoError(t, s.RequireAdmin(root))
	assert.Equal(t, rpctypes.ErrGRPCPermissionDenied, s.RequireAdmin("alice"))
	assert.Equal(t, rpctypes.ErrGRPCUserEmpty, s.RequireAdmin(""))
	assert.Equal(t, rpctypes.ErrGRPCUserNotFound, s.RequireAdmin("nobody"))
	require.NoError(t, New().RequireAdmin(""))
	assert.True(t, s.HasRole("alice", "reader"))
	assert.False(t, s.HasRole("alice", root))
}

func TestManagement(t *testing.T) {
	s := enabled(t)
	users, err := s.UserList(nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"alice", root}, users.Users)
	got, err := s.UserGet(&pb.AuthUserGetRequest{Name: "alice"})
	require.NoError(t, err)
	assert.Equal(t, []string{"reader"}, got.Roles)
	role, err := s.RoleGet(&pb.AuthRoleGetRequest{Role: "reader"})
	require.NoError(t, err)
	assert.Len(t, role.Perm, 2)

	_, err = s.RoleGrantPermission(&pb.AuthRoleGrantPermissionRequest{
		Name: "reader", Perm: &authpb.Permission{PermType: authpb.Permission_READ, Key: []byte("b")},
	})
	require.NoError(t, err)
	assert.Equal(t, rpctypes.ErrGRPCPermissionDenied, s.Permit("alice", authpb.Permission_WRITE, []byte("b"), nil))
	_, err = s.RoleRevokePermission(&pb.AuthRoleRevokePermissionRequest{Role: "reader", Key: []byte("b")})
	require.NoError(t, err)

	before, err := s.Status(nil)
	require.NoError(t, err)
	_, err = s.RoleDelete(&pb.AuthRoleDeleteRequest{Role: "reader"})
	require.NoError(t, err)
	assert.False(t, s.HasRole("alice", "reader"))
	after, err := s.Status(nil)
	require.NoError(t, err)
	assert.Equal(t, before.AuthRevision+1, after.AuthRevision)
	assert.True(t, after.Enabled)
}

func TestManagementErrors(t *testing.T) {
	s := enabled(t)
	tests := []struct {
		name string
		call func() error
		want error
	}{
		{"user without a name", func() error { _, err := s.UserAdd(&pb.AuthUserAddRequest{}); return err }, rpctypes.ErrGRPCUserEmpty},
		{"user twice", func() error { _, err := s.UserAdd(&pb.AuthUserAddRequest{Name: "alice"}); return err }, rpctypes.ErrGRPCUserAlreadyExist},
		{"unknown user", func() error { _, err := s.UserGet(&pb.AuthUserGetRequest{Name: "x"}); return err }, rpctypes.ErrGRPCUserNotFound},
		{"delete unknown user", func() error { _, err := s.UserDelete(&pb.AuthUserDeleteRequest{Name: "x"}); return err }, rpctypes.ErrGRPCUserNotFound},
		{"delete root", func() error { _, err := s.UserDelete(&pb.AuthUserDeleteRequest{Name: root}); return err }, rpctypes.ErrGRPCInvalidAuthMgmt},
		{"password of unknown user", func() error {
			_, err := s.UserChangePassword(&pb.AuthUserChangePasswordRequest{Name: "x"})
			return err
		}, rpctypes.ErrGRPCUserNotFound},
		{"grant to unknown user", func() error {
			_, err := s.UserGrantRole(&pb.AuthUserGrantRoleRequest{User: "x", Role: "reader"})
			return err
		}, rpctypes.ErrGRPCUserNotFound},
		{"grant unknown role", func() error {
			_, err := s.UserGrantRole(&pb.AuthUserGrantRoleRequest{User: "alice", Role: "x"})
			return err
		}, rpctypes.ErrGRPCRoleNotFound},
		{"revoke from unknown user", func() error {
			_, err := s.UserRevokeRole(&pb.AuthUserRevokeRoleRequest{Name: "x", Role: "reader"})
			return err
		}, rpctypes.ErrGRPCUserNotFound},
		{"revoke what is not granted", func() error {
			_, err := s.UserRevokeRole(&pb.AuthUserRevokeRoleRequest{Name: "alice", Role: root})
			return err
		}, rpctypes.ErrGRPCRoleNotGranted},
		{"revoke root from root", func() error {
			_, err := s.UserRevokeRole(&pb.AuthUserRevokeRoleRequest{Name: root, Role: root})
			return err
		}, rpctypes.ErrGRPCInvalidAuthMgmt},
		{"role without a name", func() error { _, err := s.RoleAdd(&pb.AuthRoleAddRequest{}); return err }, rpctypes.ErrGRPCRoleEmpty},
		{"role twice", func() error { _, err := s.RoleAdd(&pb.AuthRoleAddRequest{Name: "reader"}); return err }, rpctypes.ErrGRPCRoleAlreadyExist},
		{"unknown role", func() error { _, err := s.RoleGet(&pb.AuthRoleGetRequest{Role: "x"}); return err }, rpctypes.ErrGRPCRoleNotFound},
		{"delete unknown role", func() error { _, err := s.RoleDelete(&pb.AuthRoleDeleteRequest{Role: "x"}); return err }, rpctypes.ErrGRPCRoleNotFound},
		{"delete the root role", func() error { _, err := s.RoleDelete(&pb.AuthRoleDeleteRequest{Role: root}); return err }, rpctypes.ErrGRPCInvalidAuthMgmt},
		{"no permission", func() error {
			_, err := s.RoleGrantPermission(&pb.AuthRoleGrantPermissionRequest{Name: "reader"})
			return err
		}, rpctypes.ErrGRPCPermissionNotGiven},
		{"empty range", func() error {
			_, err := s.RoleGrantPermission(&pb.AuthRoleGrantPermissionRequest{
				Name: "reader", Perm: &authpb.Permission{Key: []byte("b"), RangeEnd: []byte("a")},
			})
			return err
		}, rpctypes.ErrGRPCInvalidAuthMgmt},
		{"revoke unknown permission", func() error {
			_, err := s.RoleRevokePermission(&pb.AuthRoleRevokePermissionRequest{Role: "reader", Key: []byte("x")})
			return err
		}, rpctypes.ErrGRPCPermissionNotGranted},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, tt.call(), tt.name)
	}
}
