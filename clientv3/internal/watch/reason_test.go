package watch

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

func TestRefusal(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		want         error
	}{
		{"a token, as etcd says it", rpctypes.ErrGRPCInvalidAuthToken.Error(), rpctypes.ErrInvalidAuthToken},
		{"a token, as its proxy does", rpctypes.ErrorDesc(rpctypes.ErrGRPCInvalidAuthToken), rpctypes.ErrInvalidAuthToken},
		{"an old token", rpctypes.ErrGRPCAuthOldRevision.Error(), rpctypes.ErrAuthOldRevision},
		{"no token", rpctypes.ErrGRPCUserEmpty.Error(), rpctypes.ErrUserEmpty},
		{"no permission", rpctypes.ErrGRPCPermissionDenied.Error(), rpctypes.ErrPermissionDenied},
		{"no permission, bare", "etcdserver: permission denied", rpctypes.ErrPermissionDenied},
		{"a start below 0", rpctypes.ErrCompacted.Error(), rpctypes.ErrCompacted},
		{"the text counts, not the code", "rpc error: code = Unknown desc = etcdserver: permission denied", rpctypes.ErrPermissionDenied},
		{"unknown", "mvcc: watcher duplicate ID", errors.New("mvcc: watcher duplicate ID")},
		{"unknown, of grpc", "rpc error: code = Internal desc = broken", errors.New("rpc error: code = Internal desc = broken")},
		{"a known text inside another", "proxy: etcdserver: permission denied", errors.New("proxy: etcdserver: permission denied")},
		{"grpc's form without a text", "rpc error: code = Internal", errors.New("rpc error: code = Internal")},
		{"half of grpc's form", "no desc = etcdserver: no leader", errors.New("no desc = etcdserver: no leader")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, refusal(tc.reason), "comparable with ==")
		})
	}
}
