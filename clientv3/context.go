package clientv3

import (
	"context"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"
)

// WithRequireLeader makes calls and streams with the returned context fail with
// rpctypes.ErrNoLeader, instead of waiting, when no reachable endpoint knows a
// leader. Other outgoing metadata of ctx is kept.
func WithRequireLeader(ctx context.Context) context.Context {
	md, ok := metadata.FromOutgoingContext(ctx)
	if !ok {
		md = metadata.MD{}
	}
	// FromOutgoingContext returned a copy, so setting the key is not a race.
	md.Set(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
	return metadata.NewOutgoingContext(ctx, md)
}
