package registry

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestIsSilence(t *testing.T) {
	for err, want := range map[error]bool{
		context.DeadlineExceeded:                      true,
		status.Error(codes.Unavailable, "refused"):    true,
		status.Error(codes.DeadlineExceeded, "slow"):  true,
		rpctypes.ErrNoLeader:                          true,
		rpctypes.ErrTimeout:                           true,
		status.Error(codes.PermissionDenied, "no"):    false,
		rpctypes.ErrPermissionDenied:                  false,
		rpctypes.ErrUserEmpty:                         false,
		errWatchClosed:                                false,
		status.Error(codes.Internal, "broken server"): false,
	} {
		assert.Equal(t, want, isSilence(fmt.Errorf("listing: %w", err)), "%v", err)
	}
}
