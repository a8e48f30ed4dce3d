package clientv3_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/retry"
)

// lab/behaviours converts more errors, beside the official client.
func TestContextError(t *testing.T) {
	live := context.Background()
	canceled, cancel := context.WithCancel(live)
	cancel()
	expired, cancel := context.WithDeadline(live, time.Unix(0, 0))
	defer cancel()

	internal := status.Error(codes.Internal, "boom")
	statusCanceled := status.Error(codes.Canceled, "context canceled")
	statusDeadline := status.Error(codes.DeadlineExceeded, "context deadline exceeded")
	wrapped := fmt.Errorf("wrapped: %w", rpctypes.ErrCompacted)
	unknown := &retry.UnknownOutcomeError{Method: "/m", Err: rpctypes.ErrGRPCTimeout}
	unknownCanceled := &retry.UnknownOutcomeError{Method: "/m", Err: statusCanceled}

	tests := []struct {
		name string
		ctx  context.Context
		err  error
		want error
	}{
		{"nil", live, nil, nil},
		{"server error", live, rpctypes.ErrGRPCCompacted, rpctypes.ErrCompacted},
		{"server error, wrapped", canceled, wrapped, wrapped},
		{"cancel, canceled", canceled, statusCanceled, context.Canceled},
		{"deadline, expired", expired, statusDeadline, context.DeadlineExceeded},
		{"other status, canceled", canceled, internal, internal},
		{"unknown outcome", live, unknown, unknown},
		{"unknown outcome, canceled", canceled, unknownCanceled, unknownCanceled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ContextError(tt.ctx, tt.err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestIsConnCanceled(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"nil", nil, false},
		{"closed connection", status.Error(codes.Canceled, "grpc: the client connection is closing"), true},
		{"closing transport", status.Error(codes.Unavailable, "transport is closing"), true},
		{"context canceled", context.Canceled, true},
		{"old grpc", errors.New("grpc: the client connection is closing"), true},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, IsConnCanceled(tt.err), tt.name)
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

func TestWithRequireLeader(t *testing.T) {
	require.Equal(t, metadata.MD{"hasleader": {"true"}}, outgoing(t, WithRequireLeader(context.Background())))

	given := metadata.Pairs("hasleader", "no", "other", "1", "other", "2")
	ctx := metadata.NewOutgoingContext(context.Background(), given)
	ctx = metadata.AppendToOutgoingContext(ctx, "appended", "3")
	require.Equal(t, metadata.MD{"hasleader": {"true"}, "other": {"1", "2"}, "appended": {"3"}},
		outgoing(t, WithRequireLeader(ctx)))
	require.Equal(t, []string{"no"}, given.Get("hasleader"), "the caller's metadata is unchanged")
}

func outgoing(t *testing.T, ctx context.Context) metadata.MD {
	t.Helper()
	md, ok := metadata.FromOutgoingContext(ctx)
	require.True(t, ok)
	return md
}
