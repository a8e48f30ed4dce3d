package clientv3_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/retry"
)

// An outcome that is unknown stays so, whatever has become of the context. lab/behaviours converts other errors, beside the
// official client.
func TestContextErrorOfAnUnknownOutcome(t *testing.T) {
	for _, cause := range []error{rpctypes.ErrGRPCTimeout, status.Error(codes.Canceled, "context canceled")} {
		unknown := &retry.UnknownOutcomeError{Method: "/m", Err: cause}
		require.Equal(t, unknown, ContextError(t.Context(), unknown))
		require.Equal(t, unknown, ContextError(clienttest.Ended(t), unknown))
	}
}

func TestErrorOfAWatch(t *testing.T) {
	for _, tt := range []struct {
		resp WatchResponse
		want error
	}{
		{WatchResponse{}, nil},
		{WatchResponse{Canceled: true, CompactRevision: 7}, rpctypes.ErrCompacted},
		{WatchResponse{Canceled: true, CancelReason: rpctypes.ErrPermissionDenied.Error()}, rpctypes.ErrPermissionDenied},
		{WatchResponse{Canceled: true}, rpctypes.ErrFutureRev},
		{WatchEnd(rpctypes.ErrGRPCNoLeader), rpctypes.ErrNoLeader},
	} {
		require.Equal(t, tt.want, tt.resp.Err())
	}
}
