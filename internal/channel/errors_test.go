package channel

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

func TestClassify(t *testing.T) {
	for _, tt := range []struct {
		err  error
		kind health.Kind
		ok   bool
	}{
		{rpctypes.ErrGRPCNoLeader, health.Degrading, true},
		{status.Error(codes.Unknown, "etcdserver: no leader"), health.Degrading, true},
		{rpctypes.ErrGRPCNotSupportedForLearner, health.Restricting, true},
		{rpctypes.ErrGRPCStopped, health.Refusing, true},
		{status.Error(codes.Unknown, "raft: stopped"), health.Refusing, true},
		{rpctypes.ErrGRPCNotCapable, health.Refusing, true},
		{rpctypes.ErrGRPCTimeout, health.Suspicious, true},
		{rpctypes.ErrGRPCTimeoutDueToLeaderFail, health.Suspicious, true},
		{rpctypes.ErrGRPCTimeoutDueToConnectionLost, health.Suspicious, true},
		{rpctypes.ErrGRPCLeaderChanged, 0, false},
		{rpctypes.ErrGRPCCompacted, 0, false},
		{rpctypes.ErrGRPCRequestTooManyRequests, 0, false},
		{rpctypes.ErrGRPCInvalidAuthToken, 0, false},
		{status.Error(codes.Unavailable, "transport is closing"), 0, false},
		{status.Error(codes.PermissionDenied, "unexpected HTTP status code received from server: 403 (Forbidden)"), health.Refusing, true},
		{status.Error(codes.Unavailable, "unexpected HTTP status code received from server: 502 (Bad Gateway)"), health.Suspicious, true},
		{status.Error(codes.Unavailable, "unexpected HTTP status code received from server: 429 (Too Many Requests)"), 0, false},
	} {
		kind, ok := classify(tt.err)
		assert.Equal(t, tt.ok, ok, "%v", tt.err)
		assert.Equal(t, tt.kind, kind, "%v", tt.err)
	}
}

func TestFaults(t *testing.T) {
	for _, err := range []error{
		rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCTimeout, rpctypes.ErrGRPCRequestTooManyRequests,
		rpctypes.ErrGRPCNotSupportedForLearner, status.Error(codes.Unavailable, "EOF"), status.Error(codes.Internal, "reset"),
	} {
		assert.True(t, isFault(err), "%v", err)
	}
	for _, err := range []error{
		status.Error(codes.Canceled, "context canceled"), status.Error(codes.DeadlineExceeded, "context deadline exceeded"),
		rpctypes.ErrGRPCCompacted, rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCNoSpace,
	} {
		assert.False(t, isFault(err), "%v", err)
	}
}
