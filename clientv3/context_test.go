package clientv3_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	. "github.com/quorate/quorate/clientv3"
)

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
