package auth

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// A user may be deleted between the check of its token and that of its rights. The rest is tested in lab/behaviours, which
// makes the same calls of this store and of etcd.
func TestUserIsDeletedMeanwhile(t *testing.T) {
	s := New()
	_, err := s.UserAdd(&pb.AuthUserAddRequest{Name: root})
	require.NoError(t, err)
	_, err = s.UserGrantRole(&pb.AuthUserGrantRoleRequest{User: root, Role: root})
	require.NoError(t, err)
	_, err = s.Enable(nil)
	require.NoError(t, err)
	assert.Equal(t, rpctypes.ErrGRPCUserNotFound, s.RequireAdmin("deleted"))
	assert.Equal(t, rpctypes.ErrGRPCPermissionDenied, s.Permit("deleted", authpb.Permission_READ, []byte("k"), nil))
}
