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

func TestContextError(t *testing.T) {
	live := context.Background()
	canceled, cancel := context.WithCancel(live)
	cancel()
	expired, cancel := context.WithDeadline(live, time.Unix(0, 0))
	defer cancel()

	plain := errors.New("plain")
	internal := status.Error(codes.Internal, "boom")
	statusCanceled := status.Error(codes.Canceled, "context canceled")
	statusDeadline := status.Error(codes.DeadlineExceeded, "context deadline exceeded")
	unavailable := status.Error(codes.Unavailable, "transport is closing")
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
		{"nil, canceled", canceled, nil, nil},
		{"server error", live, rpctypes.ErrGRPCCompacted, rpctypes.ErrCompacted},
		{"server error, canceled", canceled, rpctypes.ErrGRPCCompacted, rpctypes.ErrCompacted},
		{"server error, converted", live, rpctypes.ErrCompacted, rpctypes.ErrCompacted},
		{"server error, wrapped", canceled, wrapped, wrapped},
		{"cancel, live", live, statusCanceled, statusCanceled},
		{"cancel, canceled", canceled, statusCanceled, context.Canceled},
		{"cancel, expired", expired, statusCanceled, context.DeadlineExceeded},
		{"deadline, live", live, statusDeadline, statusDeadline},
		{"deadline, expired", expired, statusDeadline, context.DeadlineExceeded},
		{"deadline, canceled", canceled, statusDeadline, context.Canceled},
		{"other status, canceled", canceled, internal, internal},
		{"unavailable, expired", expired, unavailable, unavailable},
		{"plain", canceled, plain, plain},
		{"bare context error", canceled, context.Canceled, context.Canceled},
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
		{"canceled status", status.Error(codes.Canceled, "whatever"), true},
		{"closing transport", status.Error(codes.Unavailable, "transport is closing"), true},
		{"unavailable", status.Error(codes.Unavailable, "connection refused"), false},
		{"deadline status", status.Error(codes.DeadlineExceeded, "deadline"), false},
		{"context canceled", context.Canceled, true},
		{"wrapped context canceled", fmt.Errorf("wrapped: %w", context.Canceled), true},
		{"context deadline", context.DeadlineExceeded, false},
		{"old grpc", errors.New("grpc: the client connection is closing"), true},
		{"server error", rpctypes.ErrNoLeader, false},
		{"plain", errors.New("plain"), false},
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
